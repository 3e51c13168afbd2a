/**
 * The API's configuration, with a default for each setting. `apiConfiguration` parses a file or a command line once;
 * all other code uses `ApiConfiguration`.
 */
import { z } from 'zod'
import { branchDepth, pgVersions } from '../crds/index.ts'

/** An attacker can guess a shared secret that is shorter than its hash (RFC 7518, section 3.2: 256 bits for HS256). */
const sharedSecret = z
  .string()
  .refine(text => Buffer.byteLength(text) >= 32, 'must be at least 32 bytes long')
  .refine(text => !text.includes('-----BEGIN'), 'must not be a PEM key: use publicKey instead')

const loopback = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Whether the URL has TLS, or belongs to this machine. */
function isTrustworthy(text: string): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback.has(url.hostname))
}

/** Access depends on these keys, so the API fetches them without TLS only from this machine. */
const jwksUrl = z.url({ protocol: /^https?$/ }).refine(isTrustworthy, 'must be an https URL')

const authentication = z
  .strictObject({
    jwksUrl: jwksUrl.optional().describe("URL of the issuer's key set (RFC 7517)"),
    publicKey: z
      .union([z.string(), z.record(z.string(), z.unknown())])
      .optional()
      .describe('one public key: PEM (SPKI) text, or a JWK as JSON text or object'),
    sharedSecret: sharedSecret.optional().describe('HMAC secret, at least 32 bytes'),
    issuer: z.string().min(1).describe('the required `iss` of every token'),
    audience: z.string().min(1).describe('the required `aud` of every token'),
    tenantClaim: z.string().min(1).max(200).default('tenant').describe('the claim that contains the tenant'),
    cachedTokens: z
      .int()
      .min(0)
      .max(1_000_000)
      .default(10_000)
      .describe('verified tokens cached, so that each is verified once'),
  })
  .refine(
    value => [value.jwksUrl, value.publicKey, value.sharedSecret].filter(key => key !== undefined).length === 1,
    'exactly one of jwksUrl, publicKey and sharedSecret is required',
  )

const perSecond = z.number().positive().max(1_000_000)
const burst = z.int().min(1).max(10_000_000)

const withoutCredentials = (text: string): boolean => {
  const { username, password } = new URL(text)
  return username === '' && password === ''
}

/** The form that a browser sends: only scheme, host and port, in lower case. */
const isOrigin = (text: string): boolean => /^https?:[^*]*$/.test(text) && URL.parse(text)?.origin === text

const login = z.strictObject({
  clientId: z.string().min(1).max(300).describe('the public client at the issuer, without a secret'),
  scope: z.string().min(1).max(1000).default('openid').describe('the requested scopes, separated by spaces'),
  audience: z
    .string()
    .min(1)
    .max(500)
    .optional()
    .describe('sent as `audience`, if the issuer needs it for tokens of this API'),
  origins: z
    .array(z.string().max(300).refine(isOrigin, 'must be an origin, for example https://tokens.example.com'))
    .max(10)
    .default([])
    .describe("origins of the issuer's endpoints, if they are not at the origin of the issuer itself"),
})

const fields = {
  listen: z
    .strictObject({
      host: z.string().min(1).default('127.0.0.1'),
      port: z.int().min(0).max(65535).default(8080).describe('0 selects a free port'),
    })
    .prefault({}),
  authentication,
  http: z
    .strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535).describe('0 selects a free port') })
    .optional()
    .describe(
      'where /metrics is served without authentication, for clients inside the cluster only; omitted: not served',
    ),
  pgVersions: z
    .array(z.enum(pgVersions))
    .min(1)
    .default([...pgVersions])
    .transform(offered => pgVersions.filter(version => offered.includes(version)))
    .describe('the available major versions: those for which the operator has an image'),
  pgvectorVersions: z
    .array(z.enum(pgVersions))
    .default([...pgVersions])
    .describe('the major versions whose image contains pgvector'),
  services: z
    .boolean()
    .default(true)
    .describe('whether databases can have services: the operator has an image of them'),
  rateLimits: z
    .strictObject({
      tenantPerSecond: perSecond
        .default(200)
        .describe('sustained requests of one tenant; each replica counts separately'),
      tenantBurst: burst.default(1000),
      failuresPerSecond: perSecond.default(5).describe('sustained refused credentials from one address'),
      failureBurst: burst.default(50),
    })
    .prefault({}),
  sql: z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe(
          'whether the API runs SQL on databases and sends requests to their services; their NetworkPolicies must admit the API',
        ),
    })
    .prefault({}),
  idempotency: z
    .strictObject({
      recordsPerTenant: z
        .int()
        .min(10)
        .max(100_000)
        .default(2000)
        .describe("responses stored for one tenant's Idempotency-Keys, each for 24 hours and of at most about 20 KiB"),
    })
    .prefault({}),
  cors: z
    .strictObject({
      origins: z
        .array(z.string().max(300).refine(isOrigin, 'must be an origin, for example https://console.example.com'))
        .max(100)
        .default([])
        .describe('origins whose pages may send requests from a browser, matched exactly; omitted: none'),
      maxAgeSeconds: z.int().min(0).max(86_400).default(3600).describe('how long a browser caches the CORS permission'),
    })
    .prefault({}),
  newTenants: z
    .strictObject({
      databases: z.int().min(0).max(10_000).optional().describe('databases of an account; omitted: 1000'),
      branchesPerDatabase: z
        .int()
        .min(0)
        .max(1000)
        .optional()
        .describe('live branches of each database; omitted: unlimited'),
    })
    .prefault({})
    .describe('limits of an account that is created by its first write; existing accounts keep their own'),
  branches: z
    .strictObject({ highestDepth: branchDepth })
    .prefault({})
    .describe("depth of branches; must equal the operator's setting"),
  prometheus: z
    .strictObject({
      url: z
        .url({ protocol: /^https?$/ })
        .max(500)
        .refine(withoutCredentials, 'must not contain credentials'),
    })
    .optional()
    .describe('a Prometheus that collects the metrics of databases: queried instead of the agents'),
  trustedProxies: z
    .array(z.union([z.cidrv4(), z.cidrv6(), z.ipv4(), z.ipv6()]))
    .max(100)
    .default([])
    .describe('proxies whose X-Forwarded-For sets the address for rate limits and the audit log'),
  auditFile: z.string().min(1).optional().describe('file to which JSON lines are appended; omitted: the log'),
  shutdownSeconds: z.number().min(0).max(600).default(20).describe('how long a stop waits for requests in flight'),
  login: login
    .optional()
    .describe('how console and command line get a token from the issuer; omitted: users paste a token'),
}

export const apiConfiguration = z
  .strictObject(fields)
  .refine(({ login, authentication: { issuer } }) => login === undefined || isTrustworthy(issuer), {
    path: ['authentication', 'issuer'],
    error: 'must be an https URL, since `login` is configured',
  })
export type ApiConfiguration = z.output<typeof apiConfiguration>
export type AuthenticationConfiguration = ApiConfiguration['authentication']
