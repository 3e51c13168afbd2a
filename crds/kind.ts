/**
 * How one of our kinds is declared: a zod schema for its spec and its status, the rules that span fields (CEL, run by
 * the API server and by the embedded store alike), and what `kubectl get` prints. The TypeScript type of an object and
 * its CRD both come from this one declaration.
 */
import type { z } from 'zod'
import type { ObjectMeta } from './metadata.ts'

export const group = 'espalier.dev'
export const version = 'v1alpha1'
export const apiVersion = `${group}/${version}` as const

/** One CEL rule of `x-kubernetes-validations`; `oldSelf` in it makes it a transition rule. */
export type CelRule = { rule: string; message: string; fieldPath?: string; reason?: string }

/** One column of `kubectl get`. */
export type PrinterColumn = {
  name: string
  type: 'string' | 'integer' | 'date' | 'boolean'
  jsonPath: string
  priority?: number
}

export type KindDeclaration<Kind extends string, Spec extends z.ZodType, Status extends z.ZodType> = {
  kind: Kind
  /** What it is, for `kubectl explain`. */
  description: string
  plural: string
  shortNames: string[]
  scope: 'Namespaced' | 'Cluster'
  spec: Spec
  status: Status
  /** Rules on the whole object (`self.spec`, `self.metadata.name`). Rules on one field stand in its schema's meta. */
  rules: CelRule[]
  columns: PrinterColumn[]
  /** Fields by which the API server selects, besides labels. */
  selectableFields?: string[]
}

/** The TypeScript type of an object of a declared kind, as it comes from the API server. */
export type CustomResource<Kind extends string, Spec, Status> = {
  apiVersion: typeof apiVersion
  kind: Kind
  metadata: ObjectMeta
  spec: Spec
  status?: Status
}

/** The object type of a declaration. */
export type ObjectOfKind<D> =
  D extends KindDeclaration<infer Kind, infer Spec, infer Status>
    ? CustomResource<Kind, z.output<Spec>, z.output<Status>>
    : never

/** Declares a kind; identity at run time, so that the literal types survive. */
export function declareKind<const Kind extends string, Spec extends z.ZodType, Status extends z.ZodType>(
  declaration: KindDeclaration<Kind, Spec, Status>,
): KindDeclaration<Kind, Spec, Status> {
  return declaration
}

/** Meta for a field that never changes once it is set. */
export const immutable = (field: string): { 'x-kubernetes-validations': CelRule[] } => ({
  'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: `${field} is immutable` }],
})

/** Meta for a field that the operator fills in once where it is empty, and that never changes then. */
export const immutableOnceSet = (field: string): { 'x-kubernetes-validations': CelRule[] } => ({
  'x-kubernetes-validations': [{ rule: "self == oldSelf || oldSelf == ''", message: `${field} is immutable` }],
})

/** Meta for a spec of these fields that never changes, but for `onceSet`, which the operator fills in where they are empty. */
export function immutableSpec(
  what: string,
  fields: Readonly<Record<string, z.ZodType>>,
  onceSet: readonly string[],
): { 'x-kubernetes-validations': CelRule[] } {
  const same = Object.entries(fields).map(([name, schema]) => {
    const isSame = `self.${name} == oldSelf.${name}`
    if (onceSet.includes(name)) return `(${isSame} || oldSelf.${name} == '')`
    // A field that may be absent has no default, so it parses to nothing.
    const { success, data } = schema.safeParse(undefined)
    const mayBeAbsent = success && data === undefined
    return mayBeAbsent ? `has(self.${name}) == has(oldSelf.${name}) && (!has(self.${name}) || ${isSame})` : isSame
  })
  return { 'x-kubernetes-validations': [{ rule: same.join(' && '), message: `${what} is immutable` }] }
}
