/**
 * server.json is the server's entry in the MCP registry. It must match the registry's schema (2025-12-11), and the
 * product's names, version and settings.
 */
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
/** A pinned version, so that the URL always returns the same content. */
const exactVersion = z
  .string()
  .max(255)
  .regex(/^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/)
/** Only the fields that server.json uses. The registry may define others. */
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

test('matches the registry’s schema', () => {
  expect(schema.safeParse(description).error).toBeUndefined()
})

test('has the names and versions of the package and of the server', () => {
  const { name, version, mcpName } = packageFile
  expect(description).toMatchObject({
    ...{ name: mcpName, title: serverInfo.title, version },
    packages: [{ registryType: 'npm', identifier: name, version }],
  })
})

test('the server reads every setting that a user fills in', () => {
  const [{ packageArguments, environmentVariables } = {}] = description.packages
  expect(packageArguments?.map(({ value }) => value)).toEqual(['mcp'])
  const [uri, writes] = environmentVariables?.map(({ name }) => name) ?? []
  const environment = { [uri ?? '']: 'postgresql://reader:secret@db.internal:5433/sales', [writes ?? '']: 'true' }
  const { databases } = readMcpSettings({ file: undefined, environment, flags: new Map(), readFile: () => Buffer.of() })
  expect(databases).toMatchObject([
    { host: 'db.internal', port: 5433, user: 'reader', database: 'sales', allowWrites: true },
  ])
})
