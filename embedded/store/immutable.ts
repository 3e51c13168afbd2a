/** Immutable fields of Kubernetes' built-in kinds. */
import { equal, type JsonObject, type JsonValue, objectIn } from './json.ts'
import { invalid, type Problem } from './problems.ts'

export const immutableField = (path: string, before: JsonValue | undefined, after: JsonValue | undefined): Problem[] =>
  equal(before, after) ? [] : [invalid(path, after ?? '', 'field is immutable')]

/** Whether a spec field outside `allowed` changed. */
export function otherFieldsChanged(object: JsonObject, previous: JsonObject, allowed: readonly string[]): boolean {
  const strip = (spec: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(spec).filter(([field]) => !allowed.includes(field)))
  return !equal(strip(objectIn(previous, 'spec')), strip(objectIn(object, 'spec')))
}
