/**
 * What the API can be configured with, each setting with its default. A file or a command line is parsed by
 * `apiConfiguration` once; from there on everything works with `ApiConfiguration`.
 */
import { z } from 'zod'
import { branchDepth, pgVersions } from '../crds/index.ts'

/** Shared secrets shorter than the hash they key are guessable (RFC 7518, section 3.2: 256 bits for HS256). */
const sharedSecret = z
  .string()
  .refine(text => Buffer.byteLength(text) >= 32, 'must be at least 32 bytes long')
  .refine(text => !text.includes('-----BEGIN'), 'must not be a PEM key: give that as publicKey')

const loopback = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Keys that decide who comes in are never fetched in the clear, but from this machine itself. */
const jwksUrl = z.url({ protocol: /^https?$/ }).refine(text => {
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || loopback.has(hostname)
}, 'must be an https URL')

const authentication = z
  .strictObject({
    jwksUrl: jwksUrl.optional().describe('where the issuer publishes its keys (RFC 7517)'),
    publicKey: z
      .union([z.string(), z.record(z.string(), z.unknown())])
      .optional()
      .describe('one public key: PEM (SPKI) text, or a JWK as JSON text or object'),
    sharedSecret: sharedSecret.optional().describe('HMAC secret, at least 32 bytes'),
    issuer: z.string().min(1).describe('the `iss` that every token must carry'),
    audience: z.string().min(1).describe('what must stand in `aud` of every token'),
    tenantClaim: z.string().min(1).max(200).default('tenant').describe('the claim that names the tenant'),
    cachedTokens: z.int().min(0).max(1_000_000).default(10_000).describe('verified tokens kept, so as to verify once'),
  })
  .refine(
    value => [value.jwksUrl, value.publicKey, value.sharedSecret].filter(key => key !== undefined).length === 1,
    'exactly one of jwksUrl, publicKey and sharedSecret must be given',
  )

const perSecond = z.number().positive().max(1_000_000)
const burst = z.int().min(1).max(10_000_000)

const withoutCredentials = (text: string): boolean => {
  const { username, password } = new URL(text)
  return username === '' && password === ''
}

/** As a browser sends it: scheme, host and port, in lower case, and nothing else. */
const isOrigin = (text: string): boolean => /^https?:[^*]*$/.test(text) && URL.parse(text)?.origin === text

export const apiConfiguration = z.strictObject({
  listen: z
    .strictObject({
      host: z.string().min(1).default('127.0.0.1'),
      port: z.int().min(0).max(65535).default(8080).describe('0 takes a free one'),
    })
    .prefault({}),
  authentication,
  http: z
    .strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535).describe('0 takes a free one') })
    .optional()
    .describe('where /metrics is served, without a credential: for the inside of the cluster only; omitted: nowhere'),
  pgVersions: z
    .array(z.enum(pgVersions))
    .min(1)
    .default([...pgVersions])
    .transform(offered => pgVersions.filter(version => offered.includes(version)))
    .describe('the major versions on offer: those that the operator has an image of'),
  pgvectorVersions: z
    .array(z.enum(pgVersions))
    .default([...pgVersions])
    .describe('the major versions whose image has pgvector'),
  services: z
    .boolean()
    .default(true)
    .describe('whether databases can have services: where the operator has an image of them'),
  rateLimits: z
    .strictObject({
      tenantPerSecond: perSecond
        .default(200)
        .describe('requests of one tenant, sustained; each replica counts its own'),
      tenantBurst: burst.default(1000),
      failuresPerSecond: perSecond.default(5).describe('refused credentials of one address, sustained'),
      failureBurst: burst.default(50),
    })
    .prefault({}),
  idempotency: z
    .strictObject({
      recordsPerTenant: z
        .int()
        .min(10)
        .max(100_000)
        .default(2000)
        .describe('answers kept for Idempotency-Keys of one tenant, each for 24 hours, of at most some 20 KiB'),
    })
    .prefault({}),
  cors: z
    .strictObject({
      origins: z
        .array(z.string().max(300).refine(isOrigin, 'must be an origin, for example https://console.example.com'))
        .max(100)
        .default([])
        .describe('whose pages may ask from a browser, each exactly; omitted: nobody’s'),
      maxAgeSeconds: z.int().min(0).max(86_400).default(3600).describe('how long a browser remembers that it may'),
    })
    .prefault({}),
  newTenants: z
    .strictObject({
      databases: z.int().min(0).max(10_000).optional().describe('databases at once; omitted: 1000'),
      branchesPerDatabase: z.int().min(0).max(1000).optional().describe('live branches of each; omitted: any number'),
    })
    .prefault({})
    .describe('the limits of an account that its first write makes; those of one that is there are its own'),
  branches: z
    .strictObject({ highestDepth: branchDepth })
    .prefault({})
    .describe('branches; the operator is to have the same'),
  prometheus: z
    .strictObject({
      url: z
        .url({ protocol: /^https?$/ })
        .max(500)
        .refine(withoutCredentials, 'must hold no credentials'),
    })
    .optional()
    .describe('a Prometheus that gathers the metrics of databases: asked in place of the agents beside them'),
  trustedProxies: z
    .array(z.union([z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()]))
    .max(100)
    .default([])
    .describe('proxies whose X-Forwarded-For decides which address rate limits and the audit log go by'),
  auditFile: z.string().min(1).optional().describe('JSON lines are appended here; omitted: they go to the log'),
  shutdownSeconds: z.number().min(0).max(600).default(20).describe('what a stop gives to requests in flight'),
})
export type ApiConfiguration = z.output<typeof apiConfiguration>
export type AuthenticationConfiguration = ApiConfiguration['authentication']
