/** API-server rules for claims and volumes. */

import { parseQuantity } from '../../values/quantity.ts'
import { immutableField, otherFieldsChanged } from './immutable.ts'
import { equal, isObject, type JsonObject, type JsonValue, listIn, objectIn, textIn } from './json.ts'
import { forbidden, type Problem, required } from './problems.ts'

/** A claim's spec is immutable, except the volume name, which is set once, and a bound claim's storage request. */
export function checkClaim(object: JsonObject, previous?: JsonObject): Problem[] {
  const storage = (claim: JsonObject): JsonValue | undefined =>
    objectIn(objectIn(objectIn(claim, 'spec'), 'resources'), 'requests').storage
  const requested = parseQuantity(storage(object))
  if (previous === undefined) {
    const problems = listIn(objectIn(object, 'spec'), 'accessModes').length > 0 ? [] : [required('spec.accessModes')]
    return requested === undefined ? [...problems, required('spec.resources[storage]')] : problems
  }
  const path = 'spec.resources.requests.storage'
  if (requested === undefined) return [required('spec.resources[storage]')]
  // A client may reduce a request that was too large, but only to more than the granted size.
  const granted = parseQuantity(objectIn(objectIn(previous, 'status'), 'capacity').storage) ?? 0
  if (requested < (parseQuantity(storage(previous)) ?? 0) && requested <= granted) {
    return [forbidden(path, 'field can not be less than status.capacity')]
  }
  const isBound = objectIn(previous, 'status').phase === 'Bound'
  const free = objectIn(previous, 'spec').volumeName === undefined ? ['volumeName'] : []
  const resized = isBound ? ['resources'] : []
  return otherFieldsChanged(object, previous, [...free, ...resized])
    ? [
        forbidden(
          'spec',
          'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims',
        ),
      ]
    : []
}

const volumeSources = ['csi', 'hostPath', 'local', 'nfs'] as const

/** A volume's source and volume mode are immutable; its claim and reclaim policy are not. */
export function checkVolume(object: JsonObject, previous?: JsonObject): Problem[] {
  const spec = objectIn(object, 'spec')
  const sources = volumeSources.filter(source => spec[source] !== undefined)
  const problems: Problem[] = []
  if (parseQuantity(objectIn(spec, 'capacity').storage) === undefined) problems.push(required('spec.capacity'))
  if (listIn(spec, 'accessModes').length === 0) problems.push(required('spec.accessModes'))
  if (sources.length === 0) problems.push(required('spec', 'must specify a volume type'))
  if (sources.length > 1) problems.push(forbidden(`spec.${sources[1]}`, 'may not specify more than 1 volume type'))
  for (const field of ['driver', 'volumeHandle']) {
    if (isObject(spec.csi) && !textIn(spec.csi, field)) problems.push(required(`spec.csi.${field}`))
  }
  if (previous === undefined) return problems
  const before = objectIn(previous, 'spec')
  if (volumeSources.some(source => !equal(before[source], spec[source]))) {
    problems.push(forbidden('spec.persistentvolumesource', 'spec.persistentvolumesource is immutable after creation'))
  }
  return [...problems, ...immutableField('spec.volumeMode', before.volumeMode, spec.volumeMode)]
}
