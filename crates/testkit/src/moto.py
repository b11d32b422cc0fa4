# Moto's server with what tests need beyond it, or that it does otherwise than Amazon. What is said here is read from its log.
import itertools
import os
import re
import threading

from moto.core.responses import BaseResponse
from moto.route53.exceptions import ResourceRecordAlreadyExists
from moto.route53.models import Route53Backend
from moto.route53.responses import Route53
from moto.server import main

# In its folder: while it is there, no change is everywhere.
LATE = "late"


def told(call_action):
    """Says what is asked for, by which key, and what makes asking twice asking once."""

    def tell(self):
        key = re.search("Credential=([^/]+)/", self.headers.get("Authorization", ""))
        token = self._get_param("IdempotencyToken", "")
        line = f"asked: {self._get_action()} by {key[1] if key else 'nobody'} {token}\n"
        # At once, so that no line of another thread begins in it.
        os.write(1, line.encode())
        return call_action(self)

    return tell


def journal(change_resource_record_sets):
    """What is there can't be created, and what was removed can be created again just as it was."""

    def key(change):
        record = change["ResourceRecordSet"]
        return record["Name"].strip("."), record["Type"], record.get("SetIdentifier")

    def after(there, changes):
        for change in changes:
            if change["Action"] == "DELETE":
                there.pop(key(change), None)
            elif change["Action"] == "CREATE" and key(change) in there:
                raise ResourceRecordAlreadyExists(*key(change)[:2])
            else:
                there[key(change)] = change
        return there

    one_at_a_time = threading.Lock()

    def change(self, zoneid, change_list):
        with one_at_a_time:
            changes = self.get_hosted_zone(zoneid).rr_changes
            there = len(changes)
            after({key(change): change for change in changes}, change_list)
            change_resource_record_sets(self, zoneid, change_list)
            before = {key(change): change for change in changes[:there]}
            changes[:] = after(before, changes[there:]).values()

    return change


def everywhere(method, numbers=itertools.count(1)):
    """Changes are everywhere when tests say so, and each has a number of its own."""

    def late(self):
        answer = method(self)
        info = answer.result["ChangeInfo"]
        if info["Id"] == "/change/C2682N5HXP0BZ4":
            info["Id"] = f"/change/C{next(numbers)}"
        if os.path.exists(LATE):
            info["Status"] = "PENDING"
        return answer

    return late


BaseResponse.call_action = told(BaseResponse.call_action)
Route53Backend.change_resource_record_sets = journal(Route53Backend.change_resource_record_sets)
for name in ["change_resource_record_sets", "get_change"]:
    setattr(Route53, name, everywhere(getattr(Route53, name)))
main()
