/**
 * A claim that has no volume yet, of a database that never had one: too large for any storage, or of a class that there is
 * not. Kubernetes lets nobody change such a claim, so a size or class that was put right replaces it: no pod first, then
 * the claim goes, as it was seen and not if it was bound meanwhile, and another is made. Nothing that was ever initialised is touched.
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
import type { Action } from '../actions.ts';
import { asksFor } from '../children/claim.ts';
import type { Observed } from '../observed.ts';

/** Whether the database waits for the first volume of its life. While it is suspended it does not. */
export function isUnmade({
  instance,
  children: {
    claim
  },
  isStrayClaim,
  pod
}: Observed): boolean {
  if (stryMutAct_9fa48("123")) {
    {}
  } else {
    stryCov_9fa48("123");
    if (stryMutAct_9fa48("126") ? instance.status?.volume !== undefined && instance.spec.suspended : stryMutAct_9fa48("125") ? false : stryMutAct_9fa48("124") ? true : (stryCov_9fa48("124", "125", "126"), (stryMutAct_9fa48("128") ? instance.status?.volume === undefined : stryMutAct_9fa48("127") ? false : (stryCov_9fa48("127", "128"), instance.status?.volume !== undefined)) || instance.spec.suspended)) return stryMutAct_9fa48("130") ? true : (stryCov_9fa48("130"), false);
    if (stryMutAct_9fa48("133") ? (claim === undefined || isStrayClaim) && pod?.address !== undefined : stryMutAct_9fa48("132") ? false : stryMutAct_9fa48("131") ? true : (stryCov_9fa48("131", "132", "133"), (stryMutAct_9fa48("135") ? claim === undefined && isStrayClaim : stryMutAct_9fa48("134") ? false : (stryCov_9fa48("134", "135"), (stryMutAct_9fa48("137") ? claim !== undefined : stryMutAct_9fa48("136") ? false : (stryCov_9fa48("136", "137"), claim === undefined)) || isStrayClaim)) || (stryMutAct_9fa48("139") ? pod?.address === undefined : stryMutAct_9fa48("138") ? false : (stryCov_9fa48("138", "139"), pod?.address !== undefined)))) return stryMutAct_9fa48("141") ? true : (stryCov_9fa48("141"), false);
    return stryMutAct_9fa48("144") ? (claim.status?.phase ?? 'Pending') === 'Pending' || !claim.spec?.volumeName : stryMutAct_9fa48("143") ? false : stryMutAct_9fa48("142") ? true : (stryCov_9fa48("142", "143", "144"), (stryMutAct_9fa48("146") ? (claim.status?.phase ?? 'Pending') !== 'Pending' : stryMutAct_9fa48("145") ? true : (stryCov_9fa48("145", "146"), (stryMutAct_9fa48("147") ? claim.status?.phase && 'Pending' : (stryCov_9fa48("147"), claim.status?.phase ?? (stryMutAct_9fa48("149") ? "" : (stryCov_9fa48("149"), 'Pending')))) === (stryMutAct_9fa48("150") ? "" : (stryCov_9fa48("150"), 'Pending')))) && (stryMutAct_9fa48("151") ? claim.spec?.volumeName : (stryCov_9fa48("151"), !claim.spec?.volumeName)));
  }
}

/** Whether its claim is to give way to one that asks for what is wanted now. */
export function isToBeReplaced(observed: Observed): boolean {
  if (stryMutAct_9fa48("153")) {
    {}
  } else {
    stryCov_9fa48("153");
    const {
      children,
      size,
      region
    } = observed;
    const {
      claim
    } = children;
    if (stryMutAct_9fa48("156") ? (claim === undefined || size === undefined || region === undefined) && !isUnmade(observed) : stryMutAct_9fa48("155") ? false : stryMutAct_9fa48("154") ? true : (stryCov_9fa48("154", "155", "156"), (stryMutAct_9fa48("158") ? (claim === undefined || size === undefined) && region === undefined : stryMutAct_9fa48("157") ? false : (stryCov_9fa48("157", "158"), (stryMutAct_9fa48("160") ? claim === undefined && size === undefined : stryMutAct_9fa48("159") ? false : (stryCov_9fa48("159", "160"), (stryMutAct_9fa48("162") ? claim !== undefined : stryMutAct_9fa48("161") ? false : (stryCov_9fa48("161", "162"), claim === undefined)) || (stryMutAct_9fa48("164") ? size !== undefined : stryMutAct_9fa48("163") ? false : (stryCov_9fa48("163", "164"), size === undefined)))) || (stryMutAct_9fa48("166") ? region !== undefined : stryMutAct_9fa48("165") ? false : (stryCov_9fa48("165", "166"), region === undefined)))) || (stryMutAct_9fa48("167") ? isUnmade(observed) : (stryCov_9fa48("167"), !isUnmade(observed))))) return stryMutAct_9fa48("168") ? true : (stryCov_9fa48("168"), false);
    return stryMutAct_9fa48("171") ? claim.metadata.deletionTimestamp !== undefined && !asksFor(claim, size.spec.shape, region) : stryMutAct_9fa48("170") ? false : stryMutAct_9fa48("169") ? true : (stryCov_9fa48("169", "170", "171"), (stryMutAct_9fa48("173") ? claim.metadata.deletionTimestamp === undefined : stryMutAct_9fa48("172") ? false : (stryCov_9fa48("172", "173"), claim.metadata.deletionTimestamp !== undefined)) || (stryMutAct_9fa48("174") ? asksFor(claim, size.spec.shape, region) : (stryCov_9fa48("174"), !asksFor(claim, size.spec.shape, region))));
  }
}

/** Lets go of such a claim, once there is no pod that could come to use it. */
export function replacement({
  children,
  pod
}: Observed): Action[] {
  if (stryMutAct_9fa48("175")) {
    {}
  } else {
    stryCov_9fa48("175");
    const {
      claim,
      statefulSet
    } = children;
    if (stryMutAct_9fa48("178") ? claim === undefined && claim.metadata.deletionTimestamp !== undefined : stryMutAct_9fa48("177") ? false : stryMutAct_9fa48("176") ? true : (stryCov_9fa48("176", "177", "178"), (stryMutAct_9fa48("180") ? claim !== undefined : stryMutAct_9fa48("179") ? false : (stryCov_9fa48("179", "180"), claim === undefined)) || (stryMutAct_9fa48("182") ? claim.metadata.deletionTimestamp === undefined : stryMutAct_9fa48("181") ? false : (stryCov_9fa48("181", "182"), claim.metadata.deletionTimestamp !== undefined)))) return stryMutAct_9fa48("183") ? ["Stryker was here"] : (stryCov_9fa48("183"), []);
    if (stryMutAct_9fa48("186") ? pod !== undefined && (statefulSet?.spec?.replicas ?? 0) !== 0 : stryMutAct_9fa48("185") ? false : stryMutAct_9fa48("184") ? true : (stryCov_9fa48("184", "185", "186"), (stryMutAct_9fa48("188") ? pod === undefined : stryMutAct_9fa48("187") ? false : (stryCov_9fa48("187", "188"), pod !== undefined)) || (stryMutAct_9fa48("190") ? (statefulSet?.spec?.replicas ?? 0) === 0 : stryMutAct_9fa48("189") ? false : (stryCov_9fa48("189", "190"), (stryMutAct_9fa48("191") ? statefulSet?.spec?.replicas && 0 : (stryCov_9fa48("191"), statefulSet?.spec?.replicas ?? 0)) !== 0)))) return stryMutAct_9fa48("194") ? ["Stryker was here"] : (stryCov_9fa48("194"), []);
    const {
      name,
      namespace = '',
      uid = '',
      resourceVersion
    } = claim.metadata;
    return stryMutAct_9fa48("197") ? [] : (stryCov_9fa48("197"), [stryMutAct_9fa48("198") ? {} : (stryCov_9fa48("198"), {
      do: stryMutAct_9fa48("199") ? "" : (stryCov_9fa48("199"), 'delete'),
      kind: stryMutAct_9fa48("200") ? "" : (stryCov_9fa48("200"), 'PersistentVolumeClaim'),
      name,
      namespace,
      uid,
      resourceVersion
    })]);
  }
}

/** Why the volume is not there yet, as far as the cluster says; undefined where it says nothing, or all is well. */
export function unmadeMessage(observed: Observed): string | undefined {
  if (stryMutAct_9fa48("201")) {
    {}
  } else {
    stryCov_9fa48("201");
    const {
      instance,
      provisioning,
      pod,
      region
    } = observed;
    if (stryMutAct_9fa48("204") ? false : stryMutAct_9fa48("203") ? true : stryMutAct_9fa48("202") ? isUnmade(observed) : (stryCov_9fa48("202", "203", "204"), !isUnmade(observed))) return undefined;
    if (stryMutAct_9fa48("206") ? false : stryMutAct_9fa48("205") ? true : (stryCov_9fa48("205", "206"), isToBeReplaced(observed))) return 'the volume claim is being replaced by one for what is asked now';
    const why = stryMutAct_9fa48("208") ? provisioning && pod?.trouble?.message : (stryCov_9fa48("208"), provisioning ?? pod?.trouble?.message);
    if (stryMutAct_9fa48("213") ? why !== undefined : stryMutAct_9fa48("212") ? false : stryMutAct_9fa48("211") ? true : (stryCov_9fa48("211", "212", "213"), why === undefined)) return undefined;
    const {
      name,
      version
    } = instance.spec.size;
    const remedy = `another size than ${name}-v${version}, or another storage class of region ${region?.metadata.name}, replaces the claim`;
    return `the volume is not there yet: ${why}; ${remedy}`;
  }
}