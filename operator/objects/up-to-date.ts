/**
 * Whether a child equals its draft, except for additions of the API server and other managers: defaults, status, other
 * labels. If not, one server-side apply corrects the child.
 */
import { createHash } from 'node:crypto'
import { canonicalJson, type ObjectMeta } from '../../crds/index.ts'
import { isRecord } from '../../values/record.ts'

/**
 * Annotation of every applied child: a digest of its draft. With it, the operator also detects a field that was removed
 * from the draft.
 */
export const draftAnnotation = 'espalier.dev/draft'

/** A digest of any JSON value: 16 hexadecimal characters. */
export const digestOf = (value: unknown): string =>
  createHash('sha256').update(canonicalJson(value)).digest('hex').slice(0, 16)

type Drafted = { metadata: ObjectMeta }

/** The draft with its digest in an annotation. */
export function stamped<T extends Drafted>(draft: T): T {
  const annotations = { ...draft.metadata.annotations, [draftAnnotation]: digestOf(draft) }
  return { ...draft, metadata: { ...draft.metadata, annotations } }
}

const nameOf = (value: unknown): unknown => (isRecord(value) ? value.name : undefined)

/**
 * Whether `actual` contains everything in `wanted`. Lists of named items may contain additional items (another
 * manager's container is kept), and several items with one name (a volume mounted twice). All other lists are compared
 * completely.
 */
export function isUpToDate(actual: unknown, wanted: unknown): boolean {
  if (wanted === undefined) return true
  if (Array.isArray(wanted)) {
    if (!Array.isArray(actual)) return false
    if (wanted.length > 0 && wanted.every(item => nameOf(item) !== undefined))
      return wanted.every(item => actual.some(other => nameOf(other) === nameOf(item) && isUpToDate(other, item)))
    return actual.length === wanted.length && wanted.every((item, index) => isUpToDate(actual[index], item))
  }
  if (isRecord(wanted)) {
    if (!isRecord(actual)) return Object.keys(wanted).length === 0
    return Object.entries(wanted).every(([key, value]) => isUpToDate(actual[key], value))
  }
  return actual === wanted
}
