import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definitionOf, type StructuralSchema } from './definition.ts'
import { timestamp } from './fields.ts'
import { generatedDirectory, generatedFiles } from './generate.ts'
import { declarations } from './index.ts'

test('crds/generated contains exactly what `make crds` writes', () => {
  const written = new Map(
    readdirSync(generatedDirectory).map(name => [name, readFileSync(join(generatedDirectory, name), 'utf8')]),
  )
  expect(written).toEqual(generatedFiles())
})

const schemas = Object.values(declarations).map(declaration => {
  const definition = definitionOf(declaration)
  return [declaration.kind, definition.spec.versions[0]?.schema.openAPIV3Schema ?? {}] as const
})

/** Every schema node under a node, with its path. */
function* nodesOf(node: StructuralSchema, path: string): Generator<[string, StructuralSchema]> {
  yield [path, node]
  const children = Object.entries((node.properties ?? {}) as Record<string, StructuralSchema>)
  for (const [name, child] of children) yield* nodesOf(child, `${path}.${name}`)
  if (node.items !== undefined) yield* nodesOf(node.items as StructuralSchema, `${path}[]`)
  if (node.additionalProperties !== undefined)
    yield* nodesOf(node.additionalProperties as StructuralSchema, `${path}{}`)
}

test.each(schemas)(
  'the schema of %s is structural: every node has a type, and none has a forbidden keyword',
  (kind, schema) => {
    for (const [path, node] of nodesOf(schema, kind)) {
      expect(node, path).toHaveProperty('type')
      for (const forbidden of ['$ref', '$schema', 'definitions', 'const', 'uniqueItems', 'patternProperties'])
        expect(node, path).not.toHaveProperty(forbidden)
    }
  },
)

test.each(schemas)('every field of %s has a description for `kubectl explain`', (kind, schema) => {
  const isField = ([path]: [string, StructuralSchema]) => !path.endsWith('[]') && !path.endsWith('{}')
  const undescribed = [...nodesOf(schema, kind)]
    .filter(isField)
    .filter(([path]) => path !== `${kind}.metadata`)
    .filter(([, { description }]) => typeof description !== 'string' || !/^.{3,}[.\])]$/.test(description))
    .map(([path]) => path)
  expect(undescribed).toEqual([])
  // The API server refuses all other keywords here, even a description.
  expect(schema).toHaveProperty('properties.metadata', { type: 'object' })
})

/** The path of a column, as `nodesOf` names it: `.status.conditions[?(...)].reason` is `.status.conditions[].reason`. */
const pathOf = ({ jsonPath }: { jsonPath: string }): string => jsonPath.replace(/\[[^\]]*\]/, '[]')

test.each(Object.values(declarations).map(declaration => [declaration.kind, declaration] as const))(
  '`kubectl get -o wide` of %s prints existing fields, with reasons, sizes and durations if the kind has them',
  (kind, declaration) => {
    const schema = definitionOf(declaration).spec.versions[0]?.schema.openAPIV3Schema ?? {}
    const paths = [...nodesOf(schema, '')].map(([path]) => path)
    const columns = declaration.columns.map(pathOf).filter(path => !path.startsWith('.metadata.'))
    expect(columns.filter(path => !paths.includes(path))).toEqual([])
    const telling = paths.filter(path =>
      /^\.status\.(conditions\[\]\.reason|error|sizeBytes|storageUsedBytes|duration|creationDuration)$/.test(path),
    )
    expect(
      telling.filter(path => !columns.includes(path)),
      kind,
    ).toEqual([])
  },
)

test('a schema allows only the listed keywords', () => {
  const spec = z.strictObject({
    any: z.int(),
    small: z.int().min(-5).max(5),
    large: z.int().default(Number.MAX_SAFE_INTEGER),
    least: z.int().default(Number.MIN_SAFE_INTEGER),
    above: z.number().positive(),
    at: timestamp,
    map: z.record(z.string().max(3), z.string().max(4)),
    free: z.looseObject({}),
  })
  const declaration = { ...declarations.Task, spec, rules: [] }
  const schema = definitionOf(declaration).spec.versions[0]?.schema.openAPIV3Schema
  expect(schema).not.toHaveProperty('x-kubernetes-validations')
  expect(schema).toHaveProperty('properties.spec', {
    description: 'The desired state.',
    type: 'object',
    required: ['any', 'small', 'above', 'at', 'map', 'free'],
    properties: {
      any: { type: 'integer' },
      small: { type: 'integer', minimum: -5, maximum: 5 },
      large: { type: 'integer', default: Number.MAX_SAFE_INTEGER },
      least: { type: 'integer', default: Number.MIN_SAFE_INTEGER },
      above: { type: 'number', minimum: 0, exclusiveMinimum: true },
      at: { type: 'string', format: 'date-time' },
      map: { type: 'object', additionalProperties: { type: 'string', maxLength: 4 } },
      free: { type: 'object', properties: {} },
    },
  })
})
