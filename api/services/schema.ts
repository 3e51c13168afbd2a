/** ServiceConfig in requests and responses. A request has one of three shapes, selected by its type. */
import { z } from 'zod'
import { serviceConfig, serviceTypes } from '../../crds/index.ts'
import { allowlistInput, allowlistShape } from '../databases/allowlist.ts'
import { ignored } from '../schemas/common.ts'
import { componentPath, input, output } from '../schemas/components.ts'
import { mcpInput, mcpShape, ragInput, ragShape, restInput, restShape } from './configurations.ts'

const descriptions = {
  host_ids:
    'The hosts to run on, as ids or nodes of members of the database: pods are scheduled there if there is space, otherwise elsewhere. Omitted: anywhere. On one machine there is one host.',
  target_nodes:
    'The nodes of the database that an `mcp` service connects to, tried in this order. Every database has one node now, so the list has no effect.',
  bearer_token: 'The bearer token that clients of a `rag` service send. Returned only by a read of one object.',
  port: 'The port of the server, set by the type of the service. Clients use `uri`.',
  public_domain:
    'The host name of the service; null until it is assigned, or if clients cannot resolve names of the region.',
  uri: 'The base URL of the service. Absent until its host name is assigned.',
  message: 'Why it has failed, or the missing database objects that it refers to. Absent if there is no problem.',
  state:
    '`pending`: a change of the database is still being applied. `running`: it serves the current configuration. `failed`: it did not start.',
}
const states = ['pending', 'running', 'failed'] as const

type Repeated = 'bearer_token' | 'port' | 'public_domain' | 'uri' | 'state' | 'message'
const repeated = (field: Repeated, as: Record<string, unknown>) =>
  ignored(`${descriptions[field]} Ignored on input.`, as)

const common = {
  service_id: serviceConfig.shape.serviceId
    .optional()
    .describe(
      'Assigned by the server. An existing service is matched by its type; if its id is given, it must be the right one.',
    ),
  host_ids: serviceConfig.shape.hostIds
    .unwrap()
    .nullable()
    .optional()
    .describe(`${descriptions.host_ids} An existing service keeps its hosts. Null removes them.`),
  target_nodes: serviceConfig.shape.targetNodes
    .unwrap()
    .nullable()
    .optional()
    .describe(`${descriptions.target_nodes} An existing service keeps its nodes. Null removes them.`),
  ip_allowlist: allowlistInput
    .optional()
    .describe(
      "The addresses that may connect to the service's endpoint. Omitted: a new service is closed, an existing one keeps its rules.",
    ),
  bearer_token: repeated('bearer_token', { type: 'string' }),
  port: repeated('port', { type: 'integer' }),
  public_domain: repeated('public_domain', { type: ['string', 'null'] }),
  uri: repeated('uri', { type: ['string', 'null'] }),
  state: repeated('state', { type: 'string', 'x-extensible-enum': states }),
  message: repeated('message', { type: 'string' }),
}

/** The configuration that a service type accepts, and whether it is required for a new service. */
const configurations = [
  { type: 'mcp', field: 'mcp_config', name: 'MCPServiceInput', required: false, shape: mcpInput },
  { type: 'rest', field: 'rest_config', name: 'RestServiceInput', required: true, shape: restInput },
  { type: 'rag', field: 'rag_config', name: 'RAGServiceInput', required: true, shape: ragInput },
] as const

/** The condition that a field is present. */
const has = (member: string) => ({ properties: { [member]: {} }, required: [member] })
for (const { type, field, name, required, shape } of configurations) {
  const example = { service_type: type, [field]: shape.meta()?.example }
  const fields = {
    service_type: z.literal(type).describe('The type of the service.'),
    ...common,
    [field]: required ? shape : shape.optional(),
  }
  input(name, z.strictObject(fields).meta({ description: `A service of the type \`${type}\`.`, example }))
}

/** Checked as one shape, so that errors match the service's own type; the description has the three. */
const serviceInput = input(
  'ServiceConfigInput',
  z
    .strictObject({
      service_type: z.enum(serviceTypes),
      ...common,
      mcp_config: mcpInput.optional(),
      rest_config: restInput.optional(),
      rag_config: ragInput.optional(),
    })
    .meta({
      description: 'A service to run beside a database. Its type selects its configuration field.',
      oneOf: configurations.map(({ name }) => ({ $ref: componentPath(name) })),
      discriminator: {
        propertyName: 'service_type',
        mapping: Object.fromEntries(configurations.map(({ type, name }) => [type, componentPath(name)])),
      },
      example: { service_type: 'mcp', mcp_config: { allow_writes: false } },
    })
    .superRefine((service, context) => {
      const fault = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message })
      for (const { type, field, required } of configurations) {
        const present = service[field] !== undefined
        if (service.service_type !== type && present) fault([field], `allowed only on a service of type ${type}`)
        if (service.service_type === type && required && !present)
          fault([field], `is required for a service of type ${type}`)
      }
    }),
)

/** At most one service of each type: they share the database's domain and are distinguished by path. */
export const serviceInputs = z
  .array(serviceInput)
  .max(serviceTypes.length)
  .superRefine((services, context) => {
    const seen = new Set<string>()
    for (const [index, { service_type: type }] of services.entries()) {
      if (seen.has(type))
        context.addIssue({
          code: 'custom',
          path: [index, 'service_type'],
          message: 'duplicate service type',
        })
      seen.add(type)
    }
  })
  .meta({ maxItems: serviceTypes.length })

/** On a create: the server assigns the id. */
export const newServiceInputs = serviceInputs
  .superRefine((services, context) => {
    for (const [index, { service_id: serviceId }] of services.entries()) {
      if (serviceId !== undefined)
        context.addIssue({
          code: 'custom',
          path: [index, 'service_id'],
          message: 'is assigned by the server: omit it',
        })
    }
  })
  .meta({ items: { $ref: componentPath('ServiceConfigInput'), not: has('service_id') } })

export type ServiceInput = z.output<typeof serviceInput>

export const serviceShape = output(
  'ServiceConfig',
  z
    .strictObject({
      service_type: z.enum(serviceTypes).describe('The type of the service.'),
      service_id: z.string().optional().describe('The id of the service, 8 hexadecimal characters.'),
      host_ids: z.array(z.string()).optional().describe(descriptions.host_ids),
      target_nodes: z.array(z.string()).optional().describe(descriptions.target_nodes),
      ip_allowlist: allowlistShape.optional().describe("The addresses that may connect to the service's endpoint."),
      mcp_config: mcpShape.optional(),
      rest_config: restShape.optional(),
      rag_config: ragShape.optional(),
      bearer_token: z.string().optional().describe(descriptions.bearer_token),
      port: z.int().optional().describe(descriptions.port),
      public_domain: z.string().nullable().optional().describe(descriptions.public_domain),
      uri: z.string().nullable().optional().describe(descriptions.uri),
      state: z.enum(states).optional().describe(descriptions.state),
      message: z.string().optional().describe(descriptions.message),
    })
    .meta({
      description: 'A service that runs beside a database.',
      example: { service_type: 'mcp', service_id: '0a1b2c3d', mcp_config: { allow_writes: false }, state: 'running' },
    }),
)
export type ServiceShape = z.output<typeof serviceShape>
