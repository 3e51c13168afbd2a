/** Every disturbance that the sweep tries for a scenario. Depends on the number of effects of the undisturbed run. */
import type { ClusterErrorReason, KindName } from '../../cluster/index.ts'
import { frozenLeader, refusedForLong, refusedOnce, slowWorkload, staleCaches, staleStandby } from './disturbances.ts'
import type { WorkloadStep } from './fake-workload.ts'
import type { Disturbance } from './swept-run.ts'

type Interleaving = { name: string; disturb: Disturbance }

/** Caches that lag separately: a decision from two of them uses two different times. */
const followed: KindName[] = [
  'ManagedDatabase',
  'StatefulSet',
  'Pod',
  'PersistentVolumeClaim',
  'PersistentVolume',
  'Secret',
  'ConfigMap',
  'Backup',
  'VolumeSnapshot',
  'Branch',
  'Restore',
  'Task',
]
const steps: WorkloadStep[] = ['status', 'create pod', 'delete pod', 'end pod']
const once: { reason: ClusterErrorReason; isDone?: true }[] = [
  { reason: 'Conflict' },
  { reason: 'TooManyRequests' },
  { reason: 'Unavailable', isDone: true },
  { reason: 'Forbidden' },
]
const forLong: ClusterErrorReason[] = ['Forbidden', 'Invalid']

const pick = <T>(list: readonly T[], number: number): T => list[number % list.length] as T

export const interleavingKinds = [
  'caches that lag',
  'a standby whose caches lag',
  'two leaders',
  'refused writes',
  'a slow StatefulSet controller',
] as const
type InterleavingKind = (typeof interleavingKinds)[number]

/** `shift`: selects another alternative at each effect, so that similar scenarios try different ones. */
export function interleavings(effects: number, shift: number): Record<InterleavingKind, Interleaving[]> {
  const at = Array.from({ length: effects }, (_, index) => index + 1)
  const numbered = (make: (n: number) => Interleaving[], from = at) => from.flatMap(make)
  return {
    'caches that lag': numbered(
      n => {
        const how = pick(['events', 'relist'] as const, n + shift)
        const kind = pick(followed, n + shift)
        const behind = pick([1, 2, 4], n + shift)
        return [
          { name: `all caches from effect ${n}, then ${how}`, disturb: staleCaches(n, { kinds: () => true, how }) },
          {
            name: `the cache of ${kind} from effect ${n}`,
            disturb: staleCaches(n, { kinds: which => which === kind, how: 'events' }),
          },
          {
            name: `all caches by ${behind} events from effect ${n}`,
            disturb: staleCaches(n, { kinds: () => true, behind, how: 'events' }),
          },
        ]
      },
      [0, ...at],
    ),
    'a standby whose caches lag': numbered(n => {
      const behind = pick([0, 1, 3], n + shift)
      return [{ name: `by ${behind} effects after effect ${n}`, disturb: staleStandby(n, behind) }]
    }),
    'two leaders': numbered(n => [{ name: `frozen at effect ${n}`, disturb: frozenLeader(n) }]),
    'refused writes': numbered(n => {
      const { reason, isDone = false } = pick(once, n + shift)
      const long = pick(forLong, n + shift)
      return [
        { name: `${reason} at effect ${n}`, disturb: refusedOnce(n, reason, { isDone }) },
        { name: `${long} for long at effect ${n}`, disturb: refusedForLong(n, long) },
      ]
    }),
    'a slow StatefulSet controller': Array.from({ length: 2 ** steps.length - 1 }, (_, bits) => {
      const slow = steps.filter((_, index) => ((bits + 1) >> index) & 1)
      return { name: slow.join(', '), disturb: slowWorkload(slow) }
    }),
  }
}
