/** What Postgres's answers, and its pod, say of its health. Slowness says nothing. */
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
import { conditionOf } from '../../objects/conditions.ts';
import type { ChecksumFailures } from '../../postgres/administrator.ts';
import type { Observed, PostgresAnswer } from '../observed.ts';

/** What Postgres answered, in its present run, with the present passwords; undefined where it has not. */
export type Answered = Extract<PostgresAnswer, {
  state: 'answered';
}> | undefined;

/** Postgres's answer, unless it was given by an earlier run of it, or none has come in time yet. */
export function presentAnswer({
  pod,
  postgres,
  children
}: Observed): PostgresAnswer | undefined {
  if (stryMutAct_9fa48("0")) {
    {}
  } else {
    stryCov_9fa48("0");
    if (stryMutAct_9fa48("3") ? pod?.address === undefined && pod.run !== postgres?.run : stryMutAct_9fa48("2") ? false : stryMutAct_9fa48("1") ? true : (stryCov_9fa48("1", "2", "3"), (stryMutAct_9fa48("5") ? pod?.address !== undefined : stryMutAct_9fa48("4") ? false : (stryCov_9fa48("4", "5"), pod?.address === undefined)) || (stryMutAct_9fa48("8") ? pod.run === postgres?.run : stryMutAct_9fa48("7") ? false : (stryCov_9fa48("7", "8"), pod.run !== postgres?.run)))) return undefined;
    // What stands on another volume says nothing about this one.
    return (stryMutAct_9fa48("12") ? pod.volume !== children.claim?.metadata.uid : stryMutAct_9fa48("11") ? false : stryMutAct_9fa48("10") ? true : (stryCov_9fa48("10", "11", "12"), pod.volume === children.claim?.metadata.uid)) ? postgres.answer : undefined;
  }
}

/**
 * Whether what was last found of a Postgres stands: none is known of it in its present run, be it that the operator has
 * not looked since it started, or that Postgres has been too slow to answer.
 */
export function stands({
  instance,
  pod,
  postgres
}: Observed): boolean {
  if (stryMutAct_9fa48("14")) {
    {}
  } else {
    stryCov_9fa48("14");
    const isUnknown = stryMutAct_9fa48("17") ? postgres === undefined && postgres.run === pod?.run && postgres.answer === undefined : stryMutAct_9fa48("16") ? false : stryMutAct_9fa48("15") ? true : (stryCov_9fa48("15", "16", "17"), (stryMutAct_9fa48("19") ? postgres !== undefined : stryMutAct_9fa48("18") ? false : (stryCov_9fa48("18", "19"), postgres === undefined)) || (stryMutAct_9fa48("21") ? postgres.run === pod?.run || postgres.answer === undefined : stryMutAct_9fa48("20") ? false : (stryCov_9fa48("20", "21"), (stryMutAct_9fa48("23") ? postgres.run !== pod?.run : stryMutAct_9fa48("22") ? true : (stryCov_9fa48("22", "23"), postgres.run === pod?.run)) && (stryMutAct_9fa48("26") ? postgres.answer !== undefined : stryMutAct_9fa48("25") ? true : (stryCov_9fa48("25", "26"), postgres.answer === undefined)))));
    return stryMutAct_9fa48("29") ? isUnknown || conditionOf(instance.status, 'Ready')?.status === 'True' : stryMutAct_9fa48("28") ? false : stryMutAct_9fa48("27") ? true : (stryCov_9fa48("27", "28", "29"), isUnknown && (stryMutAct_9fa48("31") ? conditionOf(instance.status, 'Ready')?.status !== 'True' : stryMutAct_9fa48("30") ? true : (stryCov_9fa48("30", "31"), conditionOf(instance.status, stryMutAct_9fa48("33") ? "" : (stryCov_9fa48("33"), 'Ready'))?.status === (stryMutAct_9fa48("34") ? "" : (stryCov_9fa48("34"), 'True')))));
  }
}

/** Whether Postgres was looked at since its pod is as ready, or not, as it is now. */
const isLookedAt = stryMutAct_9fa48("35") ? () => undefined : (stryCov_9fa48("35"), (() => {
  const isLookedAt = ({
    pod,
    postgres
  }: Observed): boolean => stryMutAct_9fa48("38") ? postgres?.run === pod?.run || postgres?.ready === pod?.ready : stryMutAct_9fa48("37") ? false : stryMutAct_9fa48("36") ? true : (stryCov_9fa48("36", "37", "38"), (stryMutAct_9fa48("40") ? postgres?.run !== pod?.run : stryMutAct_9fa48("39") ? true : (stryCov_9fa48("39", "40"), postgres?.run === pod?.run)) && (stryMutAct_9fa48("44") ? postgres?.ready !== pod?.ready : stryMutAct_9fa48("43") ? true : (stryCov_9fa48("43", "44"), postgres?.ready === pod?.ready)));
  return isLookedAt;
})());

/** Postgres answered, since its pod is what it is now, that there is no room on its disk for more. */
export function isFull(observed: Observed): boolean {
  if (stryMutAct_9fa48("47")) {
    {}
  } else {
    stryCov_9fa48("47");
    const answer = presentAnswer(observed);
    return stryMutAct_9fa48("50") ? answer?.state === 'answered' && !answer.hasRoom || isLookedAt(observed) : stryMutAct_9fa48("49") ? false : stryMutAct_9fa48("48") ? true : (stryCov_9fa48("48", "49", "50"), (stryMutAct_9fa48("52") ? answer?.state === 'answered' || !answer.hasRoom : stryMutAct_9fa48("51") ? true : (stryCov_9fa48("51", "52"), (stryMutAct_9fa48("54") ? answer?.state !== 'answered' : stryMutAct_9fa48("53") ? true : (stryCov_9fa48("53", "54"), answer?.state === (stryMutAct_9fa48("56") ? "" : (stryCov_9fa48("56"), 'answered')))) && (stryMutAct_9fa48("57") ? answer.hasRoom : (stryCov_9fa48("57"), !answer.hasRoom)))) && isLookedAt(observed));
  }
}

/**
 * A small write to its WAL has not come to rest on the disk: the pod's own probe says so, or a look, where it has none. That
 * probe fails on a full disk as well, which a look tells apart: nothing is said before it.
 */
export function writeHangs(observed: Observed): boolean {
  if (stryMutAct_9fa48("58")) {
    {}
  } else {
    stryCov_9fa48("58");
    const answer = presentAnswer(observed);
    if (stryMutAct_9fa48("61") ? answer?.state === 'answered' || answer.walHangs : stryMutAct_9fa48("60") ? false : stryMutAct_9fa48("59") ? true : (stryCov_9fa48("59", "60", "61"), (stryMutAct_9fa48("63") ? answer?.state !== 'answered' : stryMutAct_9fa48("62") ? true : (stryCov_9fa48("62", "63"), answer?.state === (stryMutAct_9fa48("65") ? "" : (stryCov_9fa48("65"), 'answered')))) && answer.walHangs)) return stryMutAct_9fa48("66") ? false : (stryCov_9fa48("66"), true);
    return stryMutAct_9fa48("69") ? observed.pod?.writeHangs === true && isLookedAt(observed) || !isFull(observed) : stryMutAct_9fa48("68") ? false : stryMutAct_9fa48("67") ? true : (stryCov_9fa48("67", "68", "69"), (stryMutAct_9fa48("71") ? observed.pod?.writeHangs === true || isLookedAt(observed) : stryMutAct_9fa48("70") ? true : (stryCov_9fa48("70", "71"), (stryMutAct_9fa48("73") ? observed.pod?.writeHangs !== true : stryMutAct_9fa48("72") ? true : (stryCov_9fa48("72", "73"), observed.pod?.writeHangs === (stryMutAct_9fa48("75") ? false : (stryCov_9fa48("75"), true)))) && isLookedAt(observed))) && (stryMutAct_9fa48("76") ? isFull(observed) : (stryCov_9fa48("76"), !isFull(observed))));
  }
}
export const writeHangsMessage = 'a small write to WAL has hung for 20 s or more: whoever commits waits for the disk; Postgres is left running';

/** The reason of VolumeReady, where data on the disk are damaged. */
export const checksumFailures = stryMutAct_9fa48("78") ? "" : (stryCov_9fa48("78"), 'ChecksumFailures');

/** Said of data that still serve: what to do is the user's to decide. */
export function checksumMessage({
  count,
  databases,
  lastAt
}: ChecksumFailures): string {
  if (stryMutAct_9fa48("79")) {
    {}
  } else {
    stryCov_9fa48("79");
    const last = (stryMutAct_9fa48("82") ? lastAt !== null : stryMutAct_9fa48("81") ? false : stryMutAct_9fa48("80") ? true : (stryCov_9fa48("80", "81", "82"), lastAt === null)) ? stryMutAct_9fa48("83") ? "Stryker was here!" : (stryCov_9fa48("83"), '') : `, last at ${lastAt}`;
    return `data on the disk are damaged: ${count} times Postgres read a page that does not match its checksum${last}, in ` + `${databases.join(', ')}. Postgres goes on serving what it can read: dump that (pg_dump), find the relations ` + 'concerned in its log, and look after the storage';
  }
}