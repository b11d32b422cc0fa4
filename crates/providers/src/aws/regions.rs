//! The zones that Amazon keeps the names of load balancers in, which an alias record has to name.

use crate::Name;

/// Region, zone of Application and Classic Load Balancers, zone of Network Load Balancers.
const ZONES: &[(&str, &str, &str)] = &[
    ("af-south-1", "Z268VQBMOI5EKX", "Z203XCE67M25HM"),
    ("ap-east-1", "Z3DQVH9N71FHZ0", "Z12Y7K3UBGUAD1"),
    ("ap-northeast-1", "Z14GRHDCWA56QT", "Z31USIVHYNEOWT"),
    ("ap-northeast-2", "ZWKZPGTI48KDX", "ZIBE1TIR4HY56"),
    ("ap-northeast-3", "Z5LXEXXYW11ES", "Z1GWIQ4HH19I5X"),
    ("ap-south-1", "ZP97RAFLXTNZK", "ZVDDRBQ08TROA"),
    ("ap-southeast-1", "Z1LMS91P8CMLE5", "ZKVM4W9LS7TM"),
    ("ap-southeast-2", "Z1GM3OXH4ZPM65", "ZCT6FZBF4DROD"),
    ("ap-southeast-3", "Z08888821HLRG5A9ZRTER", "Z01971771FYVNCOVWJU1G"),
    ("ca-central-1", "ZQSVJUPU6J1EY", "Z2EPGBW3API2WT"),
    ("cn-north-1", "Z1GDH35T77C1KE", "Z3QFB96KMJ7ED6"),
    ("cn-northwest-1", "ZM7IZAIOVVDZF", "ZQEIKTCZ8352D"),
    ("eu-central-1", "Z215JYRZR1TBD5", "Z3F0SRJ5LGBH90"),
    ("eu-central-2", "Z06391101F2ZOEP8P5EB3", "Z02239872DOALSIDCX66S"),
    ("eu-north-1", "Z23TAZ6LKFMNIO", "Z1UDT6IFJ4EJM"),
    ("eu-south-1", "Z3ULH7SSC9OV64", "Z23146JA1KNAFP"),
    ("eu-south-2", "Z0956581394HF5D5LXGAP", "Z1011216NVTVYADP1SSV"),
    ("eu-west-1", "Z32O12XQLNTSW2", "Z2IFOLAFXWLO4F"),
    ("eu-west-2", "ZHURV8PSTC4K8", "ZD4D7Y8KGAS4G"),
    ("eu-west-3", "Z3Q77PNBQS71R4", "Z1CMS0P5QUZ6D5"),
    ("me-central-1", "Z08230872XQRWHG2XF6I", "Z00282643NTTLPANJJG2P"),
    ("me-south-1", "ZS929ML54UICD", "Z3QSRYVP46NYYV"),
    ("sa-east-1", "Z2P70J7HTTTPLU", "ZTK26PT1VY4CU"),
    ("us-east-1", "Z35SXDOTRQ7X7K", "Z26RNL4JYFTOTI"),
    ("us-east-2", "Z3AADJGX6KTTL2", "ZLMOA37VPKANP"),
    ("us-gov-east-1", "Z166TLBEWOO7G0", "Z1ZSMQQ6Q24QQ8"),
    ("us-gov-west-1", "Z33AYJ8TM3BH4J", "ZMG1MZ2THAWF1"),
    ("us-west-1", "Z368ELLRRE2KJ0", "Z24FKFUX50B4VW"),
    ("us-west-2", "Z1H1FL5HABSF5", "Z18D5FSROUN65G"),
];

/// The zone of a load balancer's name; none if it is not one, or of a region that is not known here.
pub(super) fn hosted_zone(balancer: &Name) -> Option<&'static str> {
    let name = balancer.as_str();
    let name = name.strip_suffix(".amazonaws.com").or_else(|| name.strip_suffix(".amazonaws.com.cn"))?;
    let mut labels = name.rsplit('.');
    let (last, before) = (labels.next()?, labels.next()?);
    let zone = |region: &str| ZONES.iter().find(|(known, ..)| *known == region);
    if last == "elb" {
        zone(before).map(|(_, application, _)| *application)
    } else if before == "elb" {
        zone(last).map(|(_, _, network)| *network)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_found_by_the_region_in_the_name() {
        for (name, zone) in [
            ("k8s-edge-gw01-123.eu-central-1.elb.amazonaws.com", Some("Z215JYRZR1TBD5")),
            ("dualstack.k8s-edge-gw01-123.us-east-1.elb.amazonaws.com", Some("Z35SXDOTRQ7X7K")),
            ("net-1a2b.elb.eu-west-1.amazonaws.com", Some("Z2IFOLAFXWLO4F")),
            ("x.cn-north-1.elb.amazonaws.com.cn", Some("Z1GDH35T77C1KE")),
            ("x.mars-1.elb.amazonaws.com", None),
            ("lb.example.com", None),
        ] {
            assert_eq!(hosted_zone(&Name::parse(name).unwrap()), zone, "{name}");
        }
    }
}
