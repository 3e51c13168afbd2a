/**
 * The annotation `espalier.dev/force` on a database that is not being deleted. It is for the deletion that follows, and for no later one:
 * the operator removes it where none follows. The time at which the condition became True says since when it is there. Pure.
 */
import { annotations } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf, type Finding, yes } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

const validMs = 10 * 60_000

/** `expiresAt`: when it is removed, in ms since the epoch. */
export function forceOf(
  { database: { metadata, status } }: Pick<Observed, 'database'>,
  now: number,
): { finding: Finding; expiresAt: number } | undefined {
  if (metadata.deletionTimestamp !== undefined || metadata.annotations?.[annotations.force] !== 'true') return undefined
  const before = conditionOf(status, 'DeletionForced')
  const since = before?.status === 'True' ? Date.parse(before.lastTransitionTime) : now
  const expiresAt = since + validMs
  const message = `a deletion would delete the branches as well; the annotation ${annotations.force} is removed at ${timestamp(expiresAt)}`
  return { finding: yes('ForceAnnotation', message), expiresAt }
}
