/** The conditions of a database or branch that need attention, as text for users. */
import { z } from 'zod'
import type { Condition } from '../../crds/index.ts'
import { time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'
import { apiTime } from './time.ts'

const problem = output(
  'Attention',
  z
    .strictObject({
      condition: z.string().describe('The condition of the object, for example BackupsReady.'),
      reason: z.string().describe('The cause, as one word for programs.'),
      message: z.string().describe('The cause, and what to do where something can be done.'),
      since: time.describe('Since when.'),
    })
    .meta({
      description: 'Something about an object that needs attention.',
      example: {
        condition: 'RestartPending',
        reason: 'Image',
        message: 'a newer image of Postgres is used from the next restart on',
        since: '2026-01-31T12:00:00Z',
      },
    }),
)

export const attentionShape = z
  .array(problem)
  .describe('What needs attention while no operation runs. Absent: nothing. While one runs, its task reports problems.')

/** Conditions that should be True. `Progressing` is not among them, because tasks report the same. */
const wanted = new Set([
  'Ready',
  'KeysAvailable',
  'VolumeReady',
  'CredentialsReady',
  'EndpointReady',
  'SizeApplied',
  'VolumeGrown',
  'ChildrenApplied',
  'ServicesReady',
  'ServicesConfigured',
  'BackupsReady',
  'Archiving',
  'SecretsReady',
])
/** Conditions that exist, or are True, only if a user should do or know something. */
const unwanted = new Set(['RetentionHeld', 'ConfigurationRefused', 'RestartPending'])

/** Phases without a running operation. In other phases, unmet conditions are usual. */
const atRest = new Set(['available', 'degraded', 'failed', 'suspended'])

function needsAttention({ type, status }: Condition, phase: string): boolean {
  // A user has requested that a suspended database is not ready.
  if (type === 'Ready' && phase === 'suspended') return false
  return wanted.has(type) ? status !== 'True' : unwanted.has(type) && status === 'True'
}

/** Returns undefined if nothing needs attention. */
export function renderAttention(
  phase: string,
  conditions: readonly Condition[] = [],
): z.output<typeof attentionShape> | undefined {
  if (!atRest.has(phase)) return undefined
  const found = conditions.filter(condition => needsAttention(condition, phase))
  if (found.length === 0) return undefined
  return found.map(({ type, reason, message, lastTransitionTime }) => ({
    condition: type,
    reason,
    message,
    since: apiTime(lastTransitionTime),
  }))
}
