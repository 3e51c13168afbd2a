/** For tests: a restore as a pass observes it. Its new volume is ready to replace the old one. Tests pass changes. */
import {
  apiVersion,
  type Backup,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  type Restore,
  teardownFinalizer,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { Candidate, Observed } from '../restore/observed.ts'
import { plainSpec } from './samples.ts'

export const now = Date.parse('2026-11-22T12:00:00Z')
export const ago = (ms: number): string => timestamp(now - ms)
export const deadlines = { restoringMs: 3600_000, modifyingMs: 600_000 }
export const volume = { claim: 'db-2-data', uid: 'new', systemIdentifier: '7' }

export const restore = (status: Restore['status'], metadata = {}): Restore => ({
  apiVersion,
  kind: 'Restore',
  metadata: { name: 'back', namespace: 'n', uid: 'u', finalizers: [teardownFinalizer], ...metadata },
  spec: { databaseName: 'one', databaseId: 'i', target: { backupName: 'one-1' } },
  ...(status === undefined ? {} : { status }),
})
/** The same restore, of a user who agrees to lose the current data. */
export const discarding = (its: Restore): Restore => ({ ...its, spec: { ...its.spec, discardPrevious: true } })
export const database = (status: ManagedDatabase['status'] = {}, more = {}): ManagedDatabase => ({
  apiVersion,
  kind: 'ManagedDatabase',
  metadata: { name: 'one', namespace: 'n', uid: 'd', ...more },
  spec: plainSpec,
  status: { phase: 'available', incarnation: 1, ...status },
})
export const backup = (phase: NonNullable<Backup['status']>['phase'], more: Partial<Backup['spec']> = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: { name: 'one-1', namespace: 'n' },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'user', ...more },
  status: { phase, ...(phase === 'completed' || phase === 'failed' ? { finishedAt: ago(0), error: 'why' } : {}) },
})
/** The operator's own backup, with all labels and annotations. */
export const prerestoreBackup = (
  phase: NonNullable<Backup['status']>['phase'],
  more: Partial<Backup['spec']> = {},
): Backup => {
  const { metadata, ...rest } = backup(phase, { purpose: 'prerestore', ...more })
  return { ...rest, metadata: { ...metadata, labels: { [labels.managedBy]: managedByEspalier } } }
}
export const running: NonNullable<Restore['status']> = {
  phase: 'running',
  startedAt: ago(1_000),
  deadlineAt: timestamp(now + 1_000),
  anchor: 'back-prerestore',
  incarnation: 2,
  previous: { incarnation: 1, claim: 'db-1-data', uid: 'old' },
}
const source = { kind: 'snapshot', snapshot: 's', id: 'i', systemIdentifier: '7', bytes: 1 } as const
export const observed = (more: Partial<Observed> = {}): Observed => ({
  restore: restore(running),
  database: database(),
  isRequested: true,
  blockedBy: undefined,
  backup: backup('completed'),
  source: { source },
  freeIncarnation: 2,
  candidate: { state: 'ready', volume, actions: [], isBound: true },
  prerestoreRefusal: undefined,
  suspensionBlock: undefined,
  oldPostgres: 'running',
  lock: undefined,
  prerestore: prerestoreBackup('pending'),
  after: undefined,
  leftovers: { hasPod: false, objects: [], claim: undefined },
  clockDistrust: undefined,
  ...more,
})
export const fenced = restore({ ...running, fencedAt: ago(500) })
export const making: Candidate = { state: 'creating', message: 'it starts', actions: [], isBound: true }
