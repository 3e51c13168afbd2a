/**
 * What is known of the data's volume. Once it has been recorded it is the only one: where it is gone, or where what
 * stands on it is another's, the database is `failed`, and nothing is ever initialised in its place.
 */
// @ts-nocheck
function stryNS_9fa48() {
  var g = typeof globalThis === 'object' && globalThis && globalThis.Math === Math && globalThis || new Function("return this")();
  var ns = g.__stryker__ || (g.__stryker__ = {});
  if (ns.activeMutant === undefined && g.process && g.process.env && g.process.env.__STRYKER_ACTIVE_MUTANT__) {
    ns.activeMutant = g.process.env.__STRYKER_ACTIVE_MUTANT__;
  }
  function retrieveNS() {
    return ns;
  }
  stryNS_9fa48 = retrieveNS;
  return retrieveNS();
}
stryNS_9fa48();
function stryCov_9fa48() {
  var ns = stryNS_9fa48();
  var cov = ns.mutantCoverage || (ns.mutantCoverage = {
    static: {},
    perTest: {}
  });
  function cover() {
    var c = cov.static;
    if (ns.currentTestId) {
      c = cov.perTest[ns.currentTestId] = cov.perTest[ns.currentTestId] || {};
    }
    var a = arguments;
    for (var i = 0; i < a.length; i++) {
      c[a[i]] = (c[a[i]] || 0) + 1;
    }
  }
  stryCov_9fa48 = cover;
  cover.apply(null, arguments);
}
function stryMutAct_9fa48(id) {
  var ns = stryNS_9fa48();
  function isActive(id) {
    if (ns.activeMutant === id) {
      if (ns.hitCount !== void 0 && ++ns.hitCount > ns.hitLimit) {
        throw new Error('Stryker: Hit count limit reached (' + ns.hitCount + ')');
      }
      return true;
    }
    return false;
  }
  stryMutAct_9fa48 = isActive;
  return isActive(id);
}
import type { RefusalReason } from '../../../instance/refusal.ts';
import { type Finding, no, yes } from '../../objects/conditions.ts';
import type { VolumeRecord } from '../instance.ts';
import type { Observed } from '../observed.ts';
import { type Answered, checksumFailures, checksumMessage, writeHangs, writeHangsMessage } from './health.ts';
import { isKept, mayRunOnRecorded, perilOf } from './peril.ts';
import { unmadeMessage } from './unmade.ts';

/** What `espalier instance prepare` refuses because of what it found on the volume. */
const fatalRefusals: Partial<Record<RefusalReason, string>> = stryMutAct_9fa48("217") ? {} : (stryCov_9fa48("217"), {
  'data-lost': stryMutAct_9fa48("218") ? "" : (stryCov_9fa48("218"), 'VolumeLost'),
  'volume-empty': stryMutAct_9fa48("219") ? "" : (stryCov_9fa48("219"), 'VolumeLost'),
  'other-database': stryMutAct_9fa48("220") ? "" : (stryCov_9fa48("220"), 'IdentityMismatch'),
  'other-incarnation': stryMutAct_9fa48("221") ? "" : (stryCov_9fa48("221"), 'IdentityMismatch'),
  'wrong-version': stryMutAct_9fa48("222") ? "" : (stryCov_9fa48("222"), 'IdentityMismatch'),
  'unknown-data': stryMutAct_9fa48("223") ? "" : (stryCov_9fa48("223"), 'IdentityMismatch'),
  'identity-unreadable': stryMutAct_9fa48("224") ? "" : (stryCov_9fa48("224"), 'IdentityMismatch')
});
const fatal = stryMutAct_9fa48("225") ? () => undefined : (stryCov_9fa48("225"), (() => {
  const fatal = (reason: string, message: string) => stryMutAct_9fa48("226") ? {} : (stryCov_9fa48("226"), {
    finding: no(reason, message),
    fatal: stryMutAct_9fa48("227") ? false : (stryCov_9fa48("227"), true)
  });
  return fatal;
})());
export function volumeFinding(observed: Observed, answered: Answered): {
  finding: Finding;
  fatal?: boolean;
} {
  if (stryMutAct_9fa48("228")) {
    {}
  } else {
    stryCov_9fa48("228");
    const {
      instance,
      children,
      pod
    } = observed;
    const recorded = instance.status?.volume;
    const {
      claim
    } = children;
    const peril = perilOf(observed);
    if (stryMutAct_9fa48("232") ? recorded !== undefined || peril === 'lost' : stryMutAct_9fa48("231") ? false : stryMutAct_9fa48("230") ? true : (stryCov_9fa48("230", "231", "232"), (stryMutAct_9fa48("234") ? recorded === undefined : stryMutAct_9fa48("233") ? true : (stryCov_9fa48("233", "234"), recorded !== undefined)) && (stryMutAct_9fa48("236") ? peril !== 'lost' : stryMutAct_9fa48("235") ? true : (stryCov_9fa48("235", "236"), peril === (stryMutAct_9fa48("237") ? "" : (stryCov_9fa48("237"), 'lost')))))) return fatal(stryMutAct_9fa48("238") ? "" : (stryCov_9fa48("238"), 'VolumeLost'), lostMessage(observed, recorded));
    if (stryMutAct_9fa48("241") ? recorded !== undefined && answered !== undefined || answered.systemIdentifier !== recorded.systemIdentifier : stryMutAct_9fa48("240") ? false : stryMutAct_9fa48("239") ? true : (stryCov_9fa48("239", "240", "241"), (stryMutAct_9fa48("243") ? recorded !== undefined || answered !== undefined : stryMutAct_9fa48("242") ? true : (stryCov_9fa48("242", "243"), (stryMutAct_9fa48("245") ? recorded === undefined : stryMutAct_9fa48("244") ? true : (stryCov_9fa48("244", "245"), recorded !== undefined)) && (stryMutAct_9fa48("247") ? answered === undefined : stryMutAct_9fa48("246") ? true : (stryCov_9fa48("246", "247"), answered !== undefined)))) && (stryMutAct_9fa48("249") ? answered.systemIdentifier === recorded.systemIdentifier : stryMutAct_9fa48("248") ? true : (stryCov_9fa48("248", "249"), answered.systemIdentifier !== recorded.systemIdentifier)))) return fatal(stryMutAct_9fa48("250") ? "" : (stryCov_9fa48("250"), 'IdentityMismatch'), `the volume holds the data of system ${answered.systemIdentifier}; this database is ${recorded.systemIdentifier}`);
    const trouble = pod?.trouble;
    const refusal = (stryMutAct_9fa48("255") ? trouble?.refusal !== undefined : stryMutAct_9fa48("254") ? false : stryMutAct_9fa48("253") ? true : (stryCov_9fa48("253", "254", "255"), trouble?.refusal === undefined)) ? undefined : fatalRefusals[trouble.refusal];
    if (stryMutAct_9fa48("259") ? trouble || refusal !== undefined : stryMutAct_9fa48("258") ? false : stryMutAct_9fa48("257") ? true : (stryCov_9fa48("257", "258", "259"), trouble && (stryMutAct_9fa48("261") ? refusal === undefined : stryMutAct_9fa48("260") ? true : (stryCov_9fa48("260", "261"), refusal !== undefined)))) return fatal(refusal, trouble.message);
    if (stryMutAct_9fa48("264") ? peril === 'going' && peril === 'detached' : stryMutAct_9fa48("263") ? false : stryMutAct_9fa48("262") ? true : (stryCov_9fa48("262", "263", "264"), (stryMutAct_9fa48("266") ? peril !== 'going' : stryMutAct_9fa48("265") ? false : (stryCov_9fa48("265", "266"), peril === (stryMutAct_9fa48("267") ? "" : (stryCov_9fa48("267"), 'going')))) || (stryMutAct_9fa48("269") ? peril !== 'detached' : stryMutAct_9fa48("268") ? false : (stryCov_9fa48("268", "269"), peril === (stryMutAct_9fa48("270") ? "" : (stryCov_9fa48("270"), 'detached')))))) return stryMutAct_9fa48("271") ? {} : (stryCov_9fa48("271"), {
      finding: no(stryMutAct_9fa48("272") ? "" : (stryCov_9fa48("272"), 'VolumeBeingDeleted'), perilMessage(observed))
    });
    if (stryMutAct_9fa48("274") ? false : stryMutAct_9fa48("273") ? true : (stryCov_9fa48("273", "274"), trouble?.diskFull)) return stryMutAct_9fa48("276") ? {} : (stryCov_9fa48("276"), {
      finding: no(stryMutAct_9fa48("277") ? "" : (stryCov_9fa48("277"), 'DiskFull'), `the volume is full: ${trouble.message}`)
    });
    if (stryMutAct_9fa48("281") ? answered?.hasRoom !== false : stryMutAct_9fa48("280") ? false : stryMutAct_9fa48("279") ? true : (stryCov_9fa48("279", "280", "281"), answered?.hasRoom === (stryMutAct_9fa48("283") ? true : (stryCov_9fa48("283"), false)))) return stryMutAct_9fa48("284") ? {} : (stryCov_9fa48("284"), {
      finding: no(stryMutAct_9fa48("285") ? "" : (stryCov_9fa48("285"), 'DiskFull'), 'the volume is full: Postgres can read, and cannot write')
    });
    if (stryMutAct_9fa48("288") ? false : stryMutAct_9fa48("287") ? true : (stryCov_9fa48("287", "288"), writeHangs(observed))) return stryMutAct_9fa48("289") ? {} : (stryCov_9fa48("289"), {
      finding: no(stryMutAct_9fa48("290") ? "" : (stryCov_9fa48("290"), 'WriteHangs'), writeHangsMessage)
    });
    if (stryMutAct_9fa48("293") ? answered?.checksumFailures === undefined : stryMutAct_9fa48("292") ? false : stryMutAct_9fa48("291") ? true : (stryCov_9fa48("291", "292", "293"), answered?.checksumFailures !== undefined)) return stryMutAct_9fa48("295") ? {} : (stryCov_9fa48("295"), {
      finding: no(checksumFailures, checksumMessage(answered.checksumFailures))
    });
    if (stryMutAct_9fa48("298") ? claim !== undefined : stryMutAct_9fa48("297") ? false : stryMutAct_9fa48("296") ? true : (stryCov_9fa48("296", "297", "298"), claim === undefined)) return stryMutAct_9fa48("299") ? {} : (stryCov_9fa48("299"), {
      finding: no(stryMutAct_9fa48("300") ? "" : (stryCov_9fa48("300"), 'Pending'), 'the volume is being claimed')
    });
    const bound = stryMutAct_9fa48("304") ? claim.status?.phase === 'Bound' && pod?.address !== undefined : stryMutAct_9fa48("303") ? false : stryMutAct_9fa48("302") ? true : (stryCov_9fa48("302", "303", "304"), (stryMutAct_9fa48("306") ? claim.status?.phase !== 'Bound' : stryMutAct_9fa48("305") ? false : (stryCov_9fa48("305", "306"), claim.status?.phase === (stryMutAct_9fa48("308") ? "" : (stryCov_9fa48("308"), 'Bound')))) || (stryMutAct_9fa48("310") ? pod?.address === undefined : stryMutAct_9fa48("309") ? false : (stryCov_9fa48("309", "310"), pod?.address !== undefined)));
    return stryMutAct_9fa48("312") ? {} : (stryCov_9fa48("312"), {
      finding: bound ? yes(stryMutAct_9fa48("313") ? "" : (stryCov_9fa48("313"), 'Bound'), 'the volume is there') : no(stryMutAct_9fa48("315") ? "" : (stryCov_9fa48("315"), 'Pending'), stryMutAct_9fa48("316") ? unmadeMessage(observed) && 'the volume is being made' : (stryCov_9fa48("316"), unmadeMessage(observed) ?? 'the volume is being made'))
    });
  }
}

/** What is gone, what is left, and what brings it back. */
function lostMessage(observed: Observed, {
  claim: name,
  uid
}: VolumeRecord): string {
  if (stryMutAct_9fa48("318")) {
    {}
  } else {
    stryCov_9fa48("318");
    const {
      children,
      volumes
    } = observed;
    const isReplaced = stryMutAct_9fa48("321") ? children.claim !== undefined || children.claim.metadata.uid !== uid : stryMutAct_9fa48("320") ? false : stryMutAct_9fa48("319") ? true : (stryCov_9fa48("319", "320", "321"), (stryMutAct_9fa48("323") ? children.claim === undefined : stryMutAct_9fa48("322") ? true : (stryCov_9fa48("322", "323"), children.claim !== undefined)) && (stryMutAct_9fa48("325") ? children.claim.metadata.uid === uid : stryMutAct_9fa48("324") ? true : (stryCov_9fa48("324", "325"), children.claim.metadata.uid !== uid)));
    const gone = `the volume claim ${name} that holds the data is gone${isReplaced ? '; another one has its name' : ''}`;
    const runs = mayRunOnRecorded(observed) ? '; Postgres runs on, and is not stopped' : stryMutAct_9fa48("330") ? "Stryker was here!" : (stryCov_9fa48("330"), '');
    const isWaiting = stryMutAct_9fa48("333") ? isReplaced && volumes.recorded !== undefined || isKept(observed) : stryMutAct_9fa48("332") ? false : stryMutAct_9fa48("331") ? true : (stryCov_9fa48("331", "332", "333"), (stryMutAct_9fa48("335") ? isReplaced || volumes.recorded !== undefined : stryMutAct_9fa48("334") ? true : (stryCov_9fa48("334", "335"), isReplaced && (stryMutAct_9fa48("337") ? volumes.recorded === undefined : stryMutAct_9fa48("336") ? true : (stryCov_9fa48("336", "337"), volumes.recorded !== undefined)))) && isKept(observed));
    const remedy = isWaiting ? `the data are kept on volume ${volumes.recorded?.name}: suspend the database and delete that claim, and the volume gets one of its own` : 'put it back with its volume. Do not delete the database while the volume may still be found: its backups would go with it, and this version restores none yet';
    return `${gone}${runs}; ${remedy}`;
  }
}

/** What will become of the data of a volume that somebody deletes, and when. */
function perilMessage(observed: Observed): string {
  if (stryMutAct_9fa48("342")) {
    {}
  } else {
    stryCov_9fa48("342");
    const {
      instance,
      children,
      volumes
    } = observed;
    const {
      claim = '',
      volumeName
    } = stryMutAct_9fa48("344") ? instance.status?.volume && {} : (stryCov_9fa48("344"), instance.status?.volume ?? {});
    if (stryMutAct_9fa48("348") ? perilOf(observed) !== 'detached' : stryMutAct_9fa48("347") ? false : stryMutAct_9fa48("346") ? true : (stryCov_9fa48("346", "347", "348"), perilOf(observed) === (stryMutAct_9fa48("349") ? "" : (stryCov_9fa48("349"), 'detached')))) return `the volume claim ${claim} was deleted: its volume ${volumeName} is kept, and is being bound to a new claim`;
    const isClaim = stryMutAct_9fa48("353") ? children.claim?.metadata.deletionTimestamp === undefined : stryMutAct_9fa48("352") ? false : stryMutAct_9fa48("351") ? true : (stryCov_9fa48("351", "352", "353"), children.claim?.metadata.deletionTimestamp !== undefined);
    const what = isClaim ? `the volume claim ${claim}` : `the volume ${volumes.bound?.name}`;
    if (stryMutAct_9fa48("360") ? false : stryMutAct_9fa48("359") ? true : stryMutAct_9fa48("358") ? isKept(observed) : (stryCov_9fa48("358", "359", "360"), !isKept(observed))) return `somebody deletes ${what}: it goes when Postgres stops, so nothing of ours stops Postgres before the volume is set to Retain`;
    return `somebody deletes ${what}: the data are kept on volume ${volumeName}, which is set to Retain. Postgres serves on; when it next stops (suspended and resumed, resized or restarted) the volume is bound to a new claim, and nothing is lost`;
  }
}