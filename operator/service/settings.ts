/** The installation's settings for the services of databases. */
import { z } from 'zod'
import type { PgVersion } from '../../crds/index.ts'
import type { NodeCount, Nodes } from './nodes.ts'
import type { UpgradeSlots } from './upgrades.ts'

const quantity = z
  .string()
  .max(32)
  .regex(/^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$/, 'must be a quantity, for example 250m or 256Mi')

const resources = (cpu: string, memory: string, limit: string) =>
  z
    .strictObject({
      requests: z
        .strictObject({ cpu: quantity.default(cpu), memory: quantity.default(memory) })
        .prefault({})
        .describe('the resource requests'),
      limits: z
        .strictObject({ cpu: quantity.optional(), memory: quantity.default(limit) })
        .prefault({})
        .describe('the resource limits of a container'),
    })
    .prefault({})

const replicas = z.union([z.literal(1), z.literal(2), z.literal('auto')]).default('auto')

const cidr = z.union([z.cidrv4(), z.cidrv6()])
const block = z.strictObject({ cidr, except: z.array(cidr).max(32).optional() })

/** All addresses except the private ranges that a cluster's pods, nodes and metadata services use. */
const publicAddresses: z.input<typeof block>[] = [
  {
    cidr: '0.0.0.0/0',
    except: [
      '0.0.0.0/8',
      '10.0.0.0/8',
      '100.64.0.0/10',
      '127.0.0.0/8',
      '169.254.0.0/16',
      '172.16.0.0/12',
      '192.168.0.0/16',
    ],
  },
  { cidr: '::/0', except: ['::1/128', 'fc00::/7', 'fe80::/10'] },
]

const url = z.url({ protocol: /^https?$/ }).max(300)

export const serviceSettings = z.strictObject({
  resources: z
    .strictObject({
      // With 256Mi both containers were OOM-killed while two clients repeatedly called a tool.
      mcp: resources('10m', '128Mi', '640Mi'),
      rest: resources('10m', '96Mi', '256Mi'),
      rag: resources('10m', '96Mi', '256Mi'),
    })
    .prefault({})
    .describe('of each container of a service'),
  replicas: z
    .strictObject({ mcp: replicas, rest: replicas, rag: replicas })
    .prefault({})
    .describe('how many pods a service has. "auto" is 2 if pods can run on two nodes or more, else 1'),
  upgradesAtOnce: z
    .int()
    .min(1)
    .max(1000)
    .default(10)
    .describe('how many databases and branches replace their services by those of another image at once'),
  baseUrls: z
    .strictObject({ anthropic: url.optional(), openai: url.optional(), voyage: url.optional() })
    .prefault({})
    .describe('the addresses of model providers, if not their public ones'),
  trustedProxies: z
    .array(z.union([cidr, z.ipv4(), z.ipv6()]))
    .max(32)
    .default(['0.0.0.0/0', '::/0'])
    .describe('proxies whose X-Forwarded-For services trust; network policies allow only the gateway to reach them'),
  settleMs: z
    .int()
    .min(0)
    .max(3600_000)
    .default(10_000)
    .describe('how long a replaced workload is kept, until gateways and nodes have noticed'),
  egress: z
    .array(block)
    .max(32)
    .default(publicAddresses)
    .describe('the address ranges of model providers; services that use one reach these at TCP port 443'),
})
export type ServiceInstallationSettings = z.output<typeof serviceSettings>

/** The settings for the services of every owner. `image`: undefined if the installation runs no services. */
export type ServiceInstallation = {
  image: string | undefined
  settings: ServiceInstallationSettings
  /** Whether pods can run on several nodes, if the number of pods depends on that. */
  nodes: Nodes
}

/** `nodes`: counts the cluster's nodes. */
export type ServiceOptions = Omit<ServiceInstallation, 'nodes'> & { nodes: NodeCount; upgrades: UpgradeSlots }

/** Whether the image of a version has pgvector. */
export type HasPgvector = (version: PgVersion) => boolean | Promise<boolean>
