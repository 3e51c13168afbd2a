/** What the registry of tool servers is told, in server.json: it has the registry's shape (schema 2025-12-11), and says of names, version and settings what is so. */
import { expect, test } from 'vitest'
import { z } from 'zod'
import packageFile from '../../package.json' with { type: 'json' }
import description from '../../server.json' with { type: 'json' }
import { readMcpSettings } from './configuration/index.ts'
import { serverInfo } from './server-info.ts'

const input = {
  description: z.string().optional(),
  isRequired: z.boolean().optional(),
  isSecret: z.boolean().optional(),
  format: z.enum(['string', 'number', 'boolean', 'filepath']).optional(),
  default: z.string().optional(),
  placeholder: z.string().optional(),
  value: z.string().optional(),
  choices: z.array(z.string()).optional(),
}
/** Of a version that can be fetched, and not the newest one, whatever that is by then. */
const exactVersion = z
  .string()
  .max(255)
  .regex(/^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/)
/** Only what we use of it: what is not named here the registry may know, but nobody has looked at. */
const schema = z.strictObject({
  $schema: z.literal('https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'),
  name: z
    .string()
    .min(3)
    .max(200)
    .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  title: z.string().min(1).max(100),
  description: z.string().min(1).max(100),
  version: exactVersion,
  packages: z.array(
    z.strictObject({
      registryType: z.enum(['npm', 'pypi', 'oci', 'nuget', 'mcpb']),
      identifier: z.string().min(1),
      version: exactVersion,
      transport: z.strictObject({ type: z.literal('stdio') }),
      packageArguments: z.array(z.strictObject({ type: z.literal('positional'), ...input, value: z.string() })),
      environmentVariables: z.array(z.strictObject({ name: z.string().regex(/^[A-Z_]+$/), ...input })),
    }),
  ),
})

test('it has the registry’s shape', () => {
  expect(schema.safeParse(description).error).toBeUndefined()
})

test('its names and versions are those of the package and of the server', () => {
  const { name, version, mcpName } = packageFile
  expect(description).toMatchObject({
    ...{ name: mcpName, title: serverInfo.title, version },
    packages: [{ registryType: 'npm', identifier: name, version }],
  })
})

test('what it has a user fill in is what the server reads', () => {
  const [{ packageArguments, environmentVariables } = {}] = description.packages
  expect(packageArguments?.map(({ value }) => value)).toEqual(['mcp'])
  const [uri, writes] = environmentVariables?.map(({ name }) => name) ?? []
  const environment = { [uri ?? '']: 'postgresql://reader:secret@db.internal:5433/sales', [writes ?? '']: 'true' }
  const { databases } = readMcpSettings({ file: undefined, environment, flags: new Map(), readFile: () => Buffer.of() })
  expect(databases).toMatchObject([
    { host: 'db.internal', port: 5433, user: 'reader', database: 'sales', allowWrites: true },
  ])
})
