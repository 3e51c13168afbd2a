/**
 * Declares a kind of Espalier: a zod schema for spec and status, CEL rules about several fields, and the columns of
 * `kubectl get`. The API server and the embedded store run the rules. The TypeScript type and the CRD are derived from
 * this declaration.
 */
import type { z } from 'zod'
import type { ObjectMeta } from './metadata.ts'

export const group = 'espalier.dev'
export const version = 'v1alpha1'
export const apiVersion = `${group}/${version}` as const

/** One CEL rule of `x-kubernetes-validations`. A rule that uses `oldSelf` is a transition rule. */
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
  /** The description for `kubectl explain`. */
  description: string
  plural: string
  shortNames: string[]
  scope: 'Namespaced' | 'Cluster'
  spec: Spec
  status: Status
  /**
   * Rules about the whole object (`self.spec`, `self.metadata.name`). Rules about one field are in the meta of its
   * schema.
   */
  rules: CelRule[]
  columns: PrinterColumn[]
  /** Fields that field selectors can use. */
  selectableFields?: string[]
}

/** The TypeScript type of an object of a declared kind, as the API server returns it. */
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

/** Declares a kind. Returns its argument, and only keeps the literal types. */
export function declareKind<const Kind extends string, Spec extends z.ZodType, Status extends z.ZodType>(
  declaration: KindDeclaration<Kind, Spec, Status>,
): KindDeclaration<Kind, Spec, Status> {
  return declaration
}

/** Meta for an immutable field. */
export const immutable = (field: string): { 'x-kubernetes-validations': CelRule[] } => ({
  'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: `${field} is immutable` }],
})

/** Meta for a field that is immutable, except that the operator sets it once if it is empty. */
export const immutableOnceSet = (field: string): { 'x-kubernetes-validations': CelRule[] } => ({
  'x-kubernetes-validations': [{ rule: "self == oldSelf || oldSelf == ''", message: `${field} is immutable` }],
})

/** Meta for a spec whose fields are immutable. The operator can set the fields in `onceSet` if they are empty. */
export function immutableSpec(
  what: string,
  fields: Readonly<Record<string, z.ZodType>>,
  onceSet: readonly string[],
): { 'x-kubernetes-validations': CelRule[] } {
  const same = Object.entries(fields).map(([name, schema]) => {
    const isSame = `self.${name} == oldSelf.${name}`
    if (onceSet.includes(name)) return `(${isSame} || oldSelf.${name} == '')`
    // An optional field has no default, so it parses to undefined.
    const { success, data } = schema.safeParse(undefined)
    const mayBeAbsent = success && data === undefined
    return mayBeAbsent ? `has(self.${name}) == has(oldSelf.${name}) && (!has(self.${name}) || ${isSame})` : isSame
  })
  return { 'x-kubernetes-validations': [{ rule: same.join(' && '), message: `${what} is immutable` }] }
}
