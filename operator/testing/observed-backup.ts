/** For tests: a backup as a pass observes it. It is about to be taken of a serving database. Tests pass changes. */
import {
  annotations,
  apiVersion,
  type Backup,
  type Branch,
  type ManagedDatabase,
  type Region,
  teardownFinalizer,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { Observed, SnapshotFacts } from '../backup/observed.ts'
import { plainSpec } from './samples.ts'

export const now = Date.parse('2026-11-22T12:00:00Z')
export const deadlines = {
  servingMs: 60_000,
  errorMs: 30_000,
  cutMs: 600_000,
  readyMs: 3600_000,
  verificationMs: 1800_000,
  durableStallMs: 900_000,
  durableMs: 86_400_000,
}
export const ago = (ms: number): string => timestamp(now - ms)
export const point = { systemIdentifier: '7', timeline: 1, startLsn: '0/1', endLsn: '0/2' }
export const takenFrom = { ...point, claim: 'data', claimUid: 'claim' }

export const ready = (status: 'True' | 'False', sinceMs = 0) => ({
  ...{ type: 'Ready', status, reason: 'R', message: 'the pod is gone', lastTransitionTime: ago(sinceMs) },
})
export const database = (status: ManagedDatabase['status'] = {}, metadata = {}): ManagedDatabase => ({
  apiVersion,
  kind: 'ManagedDatabase',
  metadata: { name: 'one', namespace: 'n', creationTimestamp: ago(10 ** 9), ...metadata },
  spec: plainSpec,
  status: {
    phase: 'available',
    conditions: [ready('True')],
    volume: { claim: 'data', uid: 'claim', systemIdentifier: '7' },
    ...status,
  },
})
export const region: Region = {
  apiVersion,
  kind: 'Region',
  metadata: { name: 'here' },
  spec: {
    domain: 'db.test',
    snapshotClass: { name: 'fast', atomic: true },
    gateway: { ports: { first: 1, last: 2 } },
  },
}
export const backup = (status?: Backup['status'], metadata = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: {
    ...{ name: 'one-1', namespace: 'n', uid: 'u', creationTimestamp: ago(1_000), finalizers: [teardownFinalizer] },
    annotations: { [annotations.firstUid]: 'u' },
    ...metadata,
  },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'user' },
  ...(status === undefined ? {} : { status }),
})
export const snapshot = (more: Partial<SnapshotFacts> = {}): SnapshotFacts => ({
  ...{ name: 'bkp-i', uid: 'snapshot', isOwn: true, isDeleting: false, takenFrom, requestedAt: now - 1_000 },
  ...{ cutAt: undefined, isReady: false, becameVolume: undefined, bytes: undefined, error: undefined },
  ...more,
})
export const observed = (more: Partial<Observed> = {}): Observed => ({
  backup: backup(),
  id: 'i',
  source: { database: database(), region, isReachable: true },
  snapshots: 'served',
  snapshotsQueriedAt: now - 1_000,
  snapshot: 'absent',
  blockedBy: undefined,
  prerestoreOf: undefined,
  usedBy: undefined,
  awaitsRecord: false,
  checkpoint: { state: 'unasked' },
  claimUid: undefined,
  taskId: 't',
  verification: { hasObjects: false, claim: false, pod: undefined, hasSlot: true, target: undefined },
  hasTaskEnded: false,
  ...more,
})
export const source = (status: ManagedDatabase['status'], metadata = {}) => ({
  source: { database: database(status, metadata), region, isReachable: true },
})
const sourceBranch = { name: 'one-copy', id: 'c' }
/** A backup of a branch, with that branch. */
export const ofBranch = (status: Branch['status'], more: Partial<Branch['spec']> = {}): Partial<Observed> => {
  const { backup: _, ...spec } = plainSpec
  const { metadata, status: serving } = database()
  const branch = {
    ...{ apiVersion, kind: 'Branch', metadata: { ...metadata, name: sourceBranch.name } },
    spec: { ...spec, databaseName: 'one', databaseId: 'i', depth: 1, ...more },
    status: { ...serving, phase: 'available', ...status },
  } as Branch // with more than a branch has
  const { spec: requestedSpec, ...rest } = backup()
  return {
    backup: { ...rest, spec: { ...requestedSpec, purpose: 'prebranch', sourceBranch } },
    source: { database: branch, region, isReachable: true },
  }
}
