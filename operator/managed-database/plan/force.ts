/**
 * The annotation `espalier.dev/force` on a database that is not being deleted. It applies to a deletion within 10
 * minutes. After that, the operator removes it. The lastTransitionTime of DeletionForced is when the operator first saw
 * the annotation. Pure.
 */
import { annotations } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf, type Finding, yes } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

const validMs = 10 * 60_000

/** `expiresAt`: when the operator removes the annotation, in ms since the epoch. */
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
