/**
 * Drift of a child: fields of `spec` or `data` that another manager set, according to the API server's record
 * (`metadata.managedFields`). Server-side apply keeps other managers' keys. So a selector key that another tool added
 * would remain after every apply of the operator. The API server's defaults belong to no manager, and are not drift.
 */
import type { AnyObject, Kinds } from '../../cluster/index.ts'
import { canonicalJson, type ManagedFieldsEntry, type ObjectMeta } from '../../crds/index.ts'
import { isRecord } from '../../values/record.ts'
import { isUpToDate } from './up-to-date.ts'

/** The field manager of the operator, in every release. */
export const operatorManager = 'espalier-operator'

/** One step of a path, in the format of FieldsV1: `f:<field>`, `k:<keys of a list item>` or `v:<item of a set>`. */
type Step = { field: string } | { keys: Record<string, unknown> } | { value: unknown }

export type Drift = {
  path: readonly Step[]
  /** The path in a readable form: `spec.selector.team`. */
  field: string
  manager: string
  /**
   * Whether the draft does not have the field, so that the operator removes it. Otherwise the draft has another value.
   */
  isSurplus: boolean
  /** Changes when the other manager sets another value. */
  fingerprint: string
}

type Drafted = { metadata: ObjectMeta }
type FieldSet = Record<string, unknown>

/** The parts of a child that only the operator manages. Other managers' labels and annotations are kept. */
const ownParts = ['f:spec', 'f:data', 'f:binaryData'] as const

const setOf = (fields: unknown): FieldSet => (isRecord(fields) ? fields : {})
const isForeign = ({ manager, subresource }: ManagedFieldsEntry): boolean =>
  manager !== operatorManager && subresource !== 'status'

const isOfOperator = ({ manager, operation }: ManagedFieldsEntry): boolean =>
  manager === operatorManager && operation === 'Apply'

/** The fields that only other managers own. A field that the operator also owns has the applied value. */
function without(set: FieldSet, own: FieldSet): FieldSet {
  return Object.fromEntries(
    Object.entries(set).flatMap(([element, inner]) => {
      const ownInner = own[element]
      if (ownInner === undefined) return [[element, inner]]
      const remaining = without(setOf(inner), setOf(ownInner))
      return Object.keys(remaining).length === 0 ? [] : [[element, remaining]]
    }),
  )
}

function foreignEntries(managedFields: readonly ManagedFieldsEntry[] = []): ManagedFieldsEntry[] {
  const own = setOf(managedFields.find(isOfOperator)?.fieldsV1)
  return managedFields.filter(isForeign).flatMap(entry => {
    const fields = setOf(entry.fieldsV1)
    const parts = ownParts.filter(part => fields[part] !== undefined).map(part => [part, fields[part]] as const)
    const retained = without(Object.fromEntries(parts), own)
    return Object.keys(retained).length === 0 ? [] : [{ ...entry, fieldsV1: retained }]
  })
}

/** The object, with only other managers' fields in managedFields. This is the cached form of applied children. */
export function withForeignFields<T extends AnyObject>(object: T): T {
  const { managedFields, ...metadata } = object.metadata
  if (managedFields === undefined) return object
  const foreign = foreignEntries(managedFields)
  return { ...object, metadata: foreign.length === 0 ? metadata : { ...metadata, managedFields: foreign } }
}

/** Labels and annotations of future pods. Other managers may set those that the operator does not set. */
const isFree = (path: readonly Step[]): boolean =>
  /^spec\.template\.metadata\.(labels|annotations)\./.test(`${textOf(path)}.`) && path.length > 4

/** Fields in the operator's parts of a child that other managers set and that differ from the draft. */
export function driftOf(actual: AnyObject, draft: Drafted): Drift[] {
  const found = foreignEntries(actual.metadata.managedFields).flatMap(({ manager, fieldsV1 }) => {
    const fields = setOf(fieldsV1)
    return ownParts.flatMap(part => below({ [part]: fields[part] }, actual, draft, { path: [], manager }))
  })
  const owned = new Set(found.map(({ field }) => field))
  return [...found, ...surplusKeys(actual, draft).filter(({ field }) => !owned.has(field))]
}

type Location = { path: readonly Step[]; manager: string }

function below(set: FieldSet, actual: unknown, draft: unknown, { path, manager }: Location): Drift[] {
  return Object.entries(set).flatMap(([element, inner]) => {
    const step = stepOf(element)
    const present = step && at(actual, step)
    if (step === undefined || present === undefined) return []
    const wanted = at(draft, step)
    const location = { path: [...path, step], manager }
    if (wanted === undefined) return isFree(location.path) ? [] : [driftAt(location, present, true)]
    const { '.': isMember, ...children } = setOf(inner)
    if (Object.keys(children).length > 0) return below(children, present, wanted, location)
    // Compares only whether a list item exists.
    if (isMember !== undefined || !('field' in step) || isSame(present, wanted)) return []
    return [driftAt(location, present, false)]
  })
}

const isSame = (left: unknown, right: unknown): boolean => canonicalJson(left) === canonicalJson(right)

const driftAt = ({ path, manager }: Location, present: unknown, isSurplus: boolean): Drift => {
  const field = textOf(path)
  return { path, field, manager, isSurplus, fingerprint: `${field}=${canonicalJson(present)}` }
}

function stepOf(element: string): Step | undefined {
  const [kind, text] = [element.slice(0, 2), element.slice(2)]
  if (kind === 'f:') return { field: text }
  if (kind !== 'k:' && kind !== 'v:') return undefined
  try {
    const value: unknown = JSON.parse(text)
    if (kind === 'v:') return { value }
    return isRecord(value) ? { keys: value } : undefined
  } catch {
    return undefined
  }
}

/** An omitted key has this default. Only ports use it. */
const defaultKeys: Record<string, unknown> = { protocol: 'TCP' }

const isItem = (item: unknown, keys: Record<string, unknown>): boolean =>
  isRecord(item) && Object.entries(keys).every(([key, value]) => (item[key] ?? defaultKeys[key]) === value)

function at(value: unknown, step: Step): unknown {
  if ('field' in step) return isRecord(value) ? value[step.field] : undefined
  if (!Array.isArray(value)) return undefined
  if ('keys' in step) return value.find(item => isItem(item, step.keys))
  return value.find(item => isSame(item, step.value))
}

const stepText = (step: Step): string => {
  if ('field' in step) return `.${step.field}`
  if ('value' in step) return `[${JSON.stringify(step.value)}]`
  return `[${Object.entries(step.keys)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')}]`
}

const textOf = (path: readonly Step[]): string => path.map(stepText).join('').slice(1)

/**
 * Maps in which any key has an effect, and to which no API server adds defaults. So they must have exactly the draft's
 * keys.
 */
const exactMaps: Partial<Record<string, readonly (readonly string[])[]>> = {
  ConfigMap: [['data'], ['binaryData']],
  NetworkPolicy: [['spec', 'podSelector', 'matchLabels']],
  PodDisruptionBudget: [['spec', 'selector', 'matchLabels']],
  Service: [['spec', 'selector']],
}

/** Finds such keys even if the record of managers was cleared. */
function surplusKeys(actual: AnyObject, draft: Drafted): Drift[] {
  return (exactMaps[actual.kind] ?? []).flatMap(names => {
    const steps = names.map(field => ({ field }))
    const [present, wanted] = [actual, draft].map(object => steps.reduce(at, object as unknown))
    if (!isRecord(present)) return []
    const surplus = Object.entries(present).filter(([key]) => !isRecord(wanted) || wanted[key] === undefined)
    return surplus.map(([field, value]) =>
      driftAt({ path: [...steps, { field }], manager: 'another manager' }, value, true),
    )
  })
}

/** The object without the fields that the draft does not have. */
export function withoutSurplus<T extends Kinds[keyof Kinds]>(object: T, drifts: readonly Drift[]): T {
  const { managedFields: _, ...metadata } = object.metadata
  const bare: unknown = { ...object, metadata }
  // The removed fields are not required by the kind.
  return drifts.filter(({ isSurplus }) => isSurplus).reduce((value, { path }) => removed(value, path), bare) as T
}

function removed(value: unknown, [step, ...rest]: readonly Step[]): unknown {
  if (step === undefined) return value
  if ('field' in step) {
    if (!isRecord(value)) return value
    const { [step.field]: inner, ...others } = value
    return rest.length === 0 ? others : { ...others, [step.field]: removed(inner, rest) }
  }
  if (!Array.isArray(value)) return value
  const isIt = (item: unknown) => ('keys' in step ? isItem(item, step.keys) : isSame(item, step.value))
  return rest.length === 0
    ? value.filter(item => !isIt(item))
    : value.map(item => (isIt(item) ? removed(item, rest) : item))
}

/** The first field in which an object differs from the draft; `fingerprint` changes with the other value. */
export function difference(
  actual: unknown,
  wanted: unknown,
  path = '',
): Pick<Drift, 'field' | 'fingerprint'> | undefined {
  if (isUpToDate(actual, wanted)) return undefined
  const here = { field: path, fingerprint: `${path}=${canonicalJson(actual ?? null)}` }
  if (isRecord(wanted) && isRecord(actual)) {
    const below = Object.entries(wanted).map(([name, value]) =>
      difference(actual[name], value, path === '' ? name : `${path}.${name}`),
    )
    return below.find(found => found !== undefined)
  }
  if (!Array.isArray(wanted) || !Array.isArray(actual)) return here
  const items = wanted.filter(isRecord).flatMap(item => {
    const [present, ...others] = actual.filter(other => isRecord(other) && other.name === item.name)
    if (item.name === undefined || present === undefined || others.length > 0)
      return isUpToDate(actual, [item]) ? [] : here
    return difference(present, item, `${path}[name=${item.name}]`) ?? []
  })
  return items[0] ?? here
}
