/**
 * The rules of a kind: its defaults, its validation, how apply merges its fields, and which changes increase its
 * generation. The rules of Espalier's kinds are in their definitions. `builtin.ts` has the rules of Kubernetes' kinds
 * that Espalier relies on.
 */
import { type KindInfo, type KindName, kindInfo } from '../../cluster/kinds.ts'
import type { CustomResourceDefinition } from '../../crds/definition.ts'
import { builtIns } from './builtin.ts'
import { withDefaults } from './defaults.ts'
import { StoreError } from './errors.ts'
import { isObject, type JsonObject, type JsonValue, type MutableObject, objectIn } from './json.ts'
import type { Problem } from './problems.ts'
import { compileSchema } from './schema.ts'
import type { SchemaNode } from './schema-node.ts'
import { fields, metadataShape, type Shape, shapeOf } from './shape.ts'
import { unknownFields, validate } from './validate.ts'

export type Resource = {
  readonly kind: KindName
  readonly info: KindInfo
  /** `ManagedDatabase.espalier.dev`, the kind's name in validation messages; `Pod` without a group. */
  readonly qualifiedKind: string
  /** `manageddatabases.espalier.dev`, the kind's name in other messages. */
  readonly qualifiedPlural: string
  readonly shape: Shape
  /** Which fields increase the generation: all except metadata and status, the spec alone, or none (no generation). */
  readonly generation: 'all' | 'spec' | 'none'
  /** The status of a new object. */
  readonly initialStatus: JsonObject | undefined
  /** The finalizer that every object of the kind has until its controller removes it. */
  readonly finalizers: readonly string[]
  /** Returns the object with its defaults. */
  complete(object: JsonObject): JsonObject
  /** Paths of fields that the kind does not have. */
  unknownFields(object: JsonObject): string[]
  /** The problems of a new object, or of an update of `previous`. */
  validate(object: JsonObject, previous?: JsonObject): Problem[]
}

const groupSuffix = ({ apiVersion }: KindInfo): string => {
  const slash = apiVersion.indexOf('/')
  return slash === -1 ? '' : `.${apiVersion.slice(0, slash)}`
}

const names = (kind: KindName) => {
  const info = kindInfo[kind]
  const suffix = groupSuffix(info)
  return { kind, info, qualifiedKind: `${kind}${suffix}`, qualifiedPlural: `${info.plural}${suffix}` }
}

/** @throws StoreError `definition` for an unknown kind, or a schema that cannot be enforced */
export function resourcesOf(definitions: readonly CustomResourceDefinition[]): Map<KindName, Resource> {
  const resources = new Map<KindName, Resource>()
  for (const kind of Object.keys(builtIns) as (keyof typeof builtIns)[]) {
    resources.set(kind, builtInResource(kind))
  }
  for (const definition of definitions) {
    const resource = customResource(definition)
    resources.set(resource.kind, resource)
  }
  return resources
}

function customResource({ spec }: CustomResourceDefinition): Resource {
  const { kind } = spec.names
  const schema = spec.versions.find(version => version.storage)?.schema.openAPIV3Schema
  if (!Object.hasOwn(kindInfo, kind) || schema === undefined) {
    throw new StoreError('definition', `${kind} is not a kind of this store, or has no stored version`)
  }
  const root = compileSchema(schema, '')
  return {
    ...names(kind as KindName),
    shape: rootShape(shapeOf(root)),
    generation: 'all',
    initialStatus: undefined,
    finalizers: [],
    complete: object => asObject(withDefaults(root, object), object),
    unknownFields: object => unknownFields(withAnyMetadata(root), object),
    validate: (object, previous) => validate(root, forRules(object), previous && forRules(previous)),
  }
}

/** Returns a schema that accepts any metadata field, because metadata.ts checks the metadata. */
const withAnyMetadata = (root: SchemaNode): SchemaNode => {
  const metadata = root.properties.get('metadata')
  if (metadata === undefined) return root
  return { ...root, properties: new Map(root.properties).set('metadata', { ...metadata, preserveUnknown: true }) }
}

/** Returns the object for CEL rules. In the metadata, a rule can read only the name. */
const forRules = (object: JsonObject): JsonObject => ({
  ...object,
  metadata: { name: objectIn(object, 'metadata').name ?? '' },
})

const rootShape = (shape: Shape): Shape =>
  shape.type === 'object' ? fields({ ...shape.fields, metadata: metadataShape }) : shape

const asObject = (value: JsonValue, otherwise: JsonObject): JsonObject => (isObject(value) ? value : otherwise)

function builtInResource(kind: keyof typeof builtIns): Resource {
  const { shape, generation, initialStatus, finalizers, complete, check } = builtIns[kind]
  return {
    ...names(kind),
    shape: rootShape(shape),
    generation,
    initialStatus,
    finalizers,
    complete: object => complete(withoutNulls(object)),
    unknownFields: () => [],
    validate: check,
  }
}

/** Kubernetes' built-in kinds accept null for "not set". */
function withoutNulls(object: JsonObject): JsonObject {
  const result: MutableObject = {}
  for (const [field, value] of Object.entries(object)) {
    if (value !== null) result[field] = isObject(value) ? withoutNulls(value) : value
  }
  return result
}
