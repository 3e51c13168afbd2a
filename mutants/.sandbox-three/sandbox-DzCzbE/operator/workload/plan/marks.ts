/**
 * Whose the children are, set right before anything else is done and in every state: references of earlier versions
 * come off, also without the installation's keys, before a garbage collector that is asked for a foreground deletion takes
 * what they stand on; and what a database finds that was put back under another uid carries that uid from then on. What merely bears its label, and is
 * none of its children, is marked beside the rest: where that is refused, nothing waits for it.
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
import type { AnyObject, KindName } from '../../../cluster/index.ts';
import { markedFor, ownerUidOf, refersToDatabase } from '../../objects/ownership.ts';
import type { Action } from '../actions.ts';
import { kindsOfRemains, type Observed } from '../observed.ts';
type Marks = {
  /** Of what a garbage collector takes for a database's, and may take away. */
  referring: Action[];
  /** Of the other children, on which work is done. */
  ofChildren: Action[];
  others: Action[];
};

/** `isGoing`: the database is being taken away, and what was never recorded goes with it. */
export function marks({
  instance,
  remains,
  children
}: Observed, {
  isGoing
}: {
  isGoing: boolean;
}): Marks {
  if (stryMutAct_9fa48("89")) {
    {}
  } else {
    stryCov_9fa48("89");
    const {
      kind
    } = instance;
    const {
      namespace = '',
      name,
      uid = ''
    } = instance.metadata;
    const owner = stryMutAct_9fa48("92") ? {} : (stryCov_9fa48("92"), {
      kind,
      namespace,
      name,
      uid
    });
    /** A claim is the data: a strange one is this database's only once it stands in its record. */
    const mayMark = stryMutAct_9fa48("93") ? () => undefined : (stryCov_9fa48("93"), (() => {
      const mayMark = (kind: KindName, object: AnyObject): boolean => stryMutAct_9fa48("96") ? (kind !== 'PersistentVolumeClaim' || isGoing || ownerUidOf(object) === uid) && instance.status?.volume?.uid === object.metadata.uid : stryMutAct_9fa48("95") ? false : stryMutAct_9fa48("94") ? true : (stryCov_9fa48("94", "95", "96"), (stryMutAct_9fa48("98") ? (kind !== 'PersistentVolumeClaim' || isGoing) && ownerUidOf(object) === uid : stryMutAct_9fa48("97") ? false : (stryCov_9fa48("97", "98"), (stryMutAct_9fa48("100") ? kind !== 'PersistentVolumeClaim' && isGoing : stryMutAct_9fa48("99") ? false : (stryCov_9fa48("99", "100"), (stryMutAct_9fa48("102") ? kind === 'PersistentVolumeClaim' : stryMutAct_9fa48("101") ? false : (stryCov_9fa48("101", "102"), kind !== (stryMutAct_9fa48("103") ? "" : (stryCov_9fa48("103"), 'PersistentVolumeClaim')))) || isGoing)) || (stryMutAct_9fa48("105") ? ownerUidOf(object) !== uid : stryMutAct_9fa48("104") ? false : (stryCov_9fa48("104", "105"), ownerUidOf(object) === uid)))) || (stryMutAct_9fa48("107") ? instance.status?.volume?.uid !== object.metadata.uid : stryMutAct_9fa48("106") ? false : (stryCov_9fa48("106", "107"), instance.status?.volume?.uid === object.metadata.uid)));
      return mayMark;
    })());
    const childUids = new Set(Object.values(children).map(stryMutAct_9fa48("110") ? () => undefined : (stryCov_9fa48("110"), child => child?.metadata.uid)));
    const found: Marks = stryMutAct_9fa48("112") ? {} : (stryCov_9fa48("112"), {
      referring: stryMutAct_9fa48("113") ? ["Stryker was here"] : (stryCov_9fa48("113"), []),
      ofChildren: stryMutAct_9fa48("114") ? ["Stryker was here"] : (stryCov_9fa48("114"), []),
      others: stryMutAct_9fa48("115") ? ["Stryker was here"] : (stryCov_9fa48("115"), [])
    });
    for (const {
      kind,
      field
    } of kindsOfRemains) for (const object of remains[field] as AnyObject[]) {
      if (stryMutAct_9fa48("116")) {
        {}
      } else {
        stryCov_9fa48("116");
        const metadata = mayMark(kind, object) ? markedFor(owner, object.metadata) : undefined;
        if (stryMutAct_9fa48("119") ? metadata !== undefined : stryMutAct_9fa48("118") ? false : stryMutAct_9fa48("117") ? true : (stryCov_9fa48("117", "118", "119"), metadata === undefined)) continue;
        const isChild = childUids.has(object.metadata.uid);
        const into = refersToDatabase(object.metadata) ? found.referring : isChild ? found.ofChildren : found.others;
        if (stryMutAct_9fa48("120")) {
          ;
        } else {
          stryCov_9fa48("120");
          into.push(stryMutAct_9fa48("121") ? {} : (stryCov_9fa48("121"), {
            do: stryMutAct_9fa48("122") ? "" : (stryCov_9fa48("122"), 'mark'),
            kind,
            object: {
              ...object,
              metadata
            } as AnyObject
          }));
        }
      }
    }
    return found;
  }
}