/** Converts a declared kind to a CustomResourceDefinition: a structural schema with our CEL rules and columns. */
import { z } from 'zod'
import { group, type KindDeclaration, version } from './kind.ts'

/** A JSON schema node in the subset that the API server calls structural. */
export type StructuralSchema = { [key: string]: unknown }

export type CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1'
  kind: 'CustomResourceDefinition'
  metadata: { name: string }
  spec: {
    group: string
    names: { kind: string; listKind: string; plural: string; singular: string; shortNames: string[] }
    scope: 'Namespaced' | 'Cluster'
    versions: {
      name: string
      served: boolean
      storage: boolean
      subresources: { status: Record<string, never> }
      additionalPrinterColumns: unknown[]
      selectableFields?: { jsonPath: string }[]
      schema: { openAPIV3Schema: StructuralSchema }
    }[]
  }
}

/**
 * Converts zod's JSON schema to a structural schema:
 *
 * - removes `additionalProperties: false`, because the API server itself prunes or refuses unknown fields;
 * - keeps the value schema of maps;
 * - makes a date-time a plain string with that format;
 * - removes integer bounds that only mean "safe integer".
 */
function structural(source: StructuralSchema): StructuralSchema {
  const result: StructuralSchema = {}
  for (const [key, value] of Object.entries(source)) {
    if (key === 'additionalProperties') {
      // Neither `false` nor `{}` (fields that are preserved) has members.
      const values = value as StructuralSchema
      if (Object.keys(values).length > 0) result.additionalProperties = structural(values)
    } else if (key === 'properties') {
      result.properties = Object.fromEntries(
        Object.entries(value as Record<string, StructuralSchema>).map(([name, schema]) => [name, structural(schema)]),
      )
    } else if (key === 'items') result.items = structural(value as StructuralSchema)
    else if (key === 'pattern' && source.format === 'date-time') continue
    else if (key === 'maximum' && value === Number.MAX_SAFE_INTEGER) continue
    else if (key === 'minimum' && value === Number.MIN_SAFE_INTEGER) continue
    else result[key] = value
  }
  return result
}

const schemaOf = (schema: z.ZodType): StructuralSchema =>
  structural(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input', reused: 'inline' }))

const described = (schema: StructuralSchema, description: string): StructuralSchema => ({ description, ...schema })

/** The CRD of a declaration, in the form that is applied to a cluster. */
export function definitionOf(declaration: KindDeclaration<string, z.ZodType, z.ZodType>): CustomResourceDefinition {
  const { kind, description, plural, shortNames, scope, spec, status, rules, columns, selectableFields } = declaration
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames },
      scope,
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          ...(selectableFields && { selectableFields: selectableFields.map(jsonPath => ({ jsonPath })) }),
          schema: {
            openAPIV3Schema: {
              description,
              type: 'object',
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string', description: 'The group and version of this kind.' },
                kind: { type: 'string', description: 'The name of this kind.' },
                // The API server itself documents this field, and refuses a description.
                metadata: { type: 'object' },
                spec: described(schemaOf(spec), 'The desired state.'),
                status: described(schemaOf(status), 'The observed state. Only the operator writes it.'),
              },
              ...(rules.length > 0 ? { 'x-kubernetes-validations': rules } : {}),
            },
          },
        },
      ],
    },
  }
}
