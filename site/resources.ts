/** The reference page of the custom resources, from their CustomResourceDefinitions. */
import type { CustomResourceDefinition, StructuralSchema } from '../crds/definition.ts'
import { cell, heading, table } from './markdown.ts'

type Field = { path: string; type: string; isRequired: boolean; rule: string; description: string }

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const isSchema = (value: unknown): value is StructuralSchema => typeof value === 'object' && value !== null

/** A pattern of this length or more is a check that the description explains in words. */
const longPattern = 60

function ruleOf(schema: StructuralSchema): string {
  const values = Array.isArray(schema.enum) ? schema.enum.map(value => `\`${String(value)}\``).join(', ') : ''
  const pattern = text(schema.pattern)
  const bounds = [
    ['minimum', '≥'],
    ['maximum', '≤'],
    ['minLength', 'length ≥'],
    ['maxLength', 'length ≤'],
    ['minItems', 'items ≥'],
    ['maxItems', 'items ≤'],
  ] as const
  return [
    values === '' ? '' : `one of ${values}`,
    ...bounds.map(([key, sign]) => (schema[key] === undefined ? '' : `${sign} ${String(schema[key])}`)),
    pattern === '' || pattern.length >= longPattern ? '' : `pattern \`${pattern}\``,
    schema.default === undefined ? '' : `default \`${JSON.stringify(schema.default)}\``,
  ]
    .filter(part => part !== '')
    .join('; ')
}

function typeOf(schema: StructuralSchema): string {
  if (schema['x-kubernetes-int-or-string'] === true) return 'integer or string'
  const type = text(schema.type)
  if (type === 'array' && isSchema(schema.items)) return `list of ${typeOf(schema.items)}`
  if (type === 'object' && isSchema(schema.additionalProperties)) return `map of ${typeOf(schema.additionalProperties)}`
  const format = text(schema.format)
  return format === '' ? type : `${type} (${format})`
}

/** Every field below `schema`, parents first. A list adds `[]` to the path, a map `.*`. */
function fieldsOf(schema: StructuralSchema, prefix: string): Field[] {
  const required = Array.isArray(schema.required) ? schema.required : []
  const properties = isSchema(schema.properties) ? Object.entries(schema.properties) : []
  return properties.flatMap(([name, value]) => {
    if (!isSchema(value)) return []
    const path = `${prefix}.${name}`
    const field: Field = {
      path,
      type: typeOf(value),
      isRequired: required.includes(name),
      rule: ruleOf(value),
      description: text(value.description),
    }
    const items = isSchema(value.items) ? fieldsOf(value.items, `${path}[]`) : []
    const values = isSchema(value.additionalProperties) ? fieldsOf(value.additionalProperties, `${path}.*`) : []
    return [field, ...fieldsOf(value, path), ...items, ...values]
  })
}

const fieldTable = (fields: readonly Field[]): string =>
  table(
    ['field', 'type', 'description', 'rule'],
    fields.map(({ path, type, isRequired, rule, description }) => [
      `\`${path}\``,
      isRequired ? `${type}, required` : type,
      cell(description),
      cell(rule),
    ]),
  )

function sectionOf({ spec }: CustomResourceDefinition): string {
  const [version] = spec.versions
  const root = version?.schema.openAPIV3Schema ?? {}
  const properties = isSchema(root.properties) ? root.properties : {}
  const names = [spec.names.plural, ...spec.names.shortNames].map(name => `\`kubectl get ${name}\``).join(', ')
  const parts = (['spec', 'status'] as const).flatMap(name => {
    const schema = properties[name]
    if (!isSchema(schema)) return []
    const fields = fieldsOf(schema, name)
    return fields.length === 0 ? [] : [heading(3, `${name} of ${spec.names.kind}`), fieldTable(fields)]
  })
  return [
    heading(2, spec.names.kind),
    text(root.description),
    `Scope: ${spec.scope === 'Cluster' ? 'the cluster' : 'a namespace'}. ${names}.`,
    ...parts,
  ].join('\n\n')
}

export function resourcesPage(definitions: readonly CustomResourceDefinition[]): string {
  const [first] = definitions
  const group = first?.spec.group ?? ''
  const version = first?.spec.versions[0]?.name ?? ''
  return [
    heading(1, 'Custom resources'),
    `Every field of the resources of \`${group}/${version}\`. \`kubectl explain\` prints the same. The operator writes \`status\`; users write \`spec\`.`,
    ...definitions.map(sectionOf),
  ].join('\n\n')
}
