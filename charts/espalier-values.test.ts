/** The values of the chart `espalier`: each value has an effect, and invalid values are refused. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { isRecord } from '../values/record.ts'
import { authentication, espalierChart, jwks, minimal, needed, ownNodes, set } from './testing/espalier.ts'
import { describeChart, type Rendered } from './testing/helm.ts'

/** Every value by its path. An empty value counts as a value. */
function leavesOf(value: unknown, path = ''): [path: string, value: unknown][] {
  const entries = isRecord(value) ? Object.entries(value) : []
  if (entries.length === 0) return [[path, value]]
  return entries.flatMap(([key, inner]) => leavesOf(inner, path === '' ? key : `${path}.${key}`))
}

const monitored = ['--set', 'monitoring.serviceMonitor.enabled=true,monitoring.dashboard.enabled=true']
const watched = ['--set', 'monitoring.databases.podMonitor.enabled=true,monitoring.databases.rules.enabled=true']
const certManager = set('tls.source=cert-manager', 'tls.certManager.issuerRef.name=ours')
const shared = set('api.authentication.jwksUrl=', 'api.authentication.sharedSecret.existingSecret=first')
const archive = set('archive.keySecret.name=first', 'archive.store.url=s3://first')
const archived = [...archive, '--set', 'archive.enabled=true']
const ofArchive = [
  ...[
    'replicas',
    'keySecret.name',
    'keySecret.key',
    'serviceAccountAnnotations',
    'egress',
    'nodeSelector',
    'tolerations',
  ],
  ...['url', 'endpoint', 'region', 'pathStyle', 'credentialsSecret', 'authoritySecret'].map(name => `store.${name}`),
  ...['requests.cpu', 'requests.memory', 'limits.memory'].map(name => `resources.${name}`),
]
/** Other values that must be set so that a value has an effect. */
const needs: Record<string, string[]> = {
  'api.service.nodePort': set('api.service.type=NodePort'),
  'gateway.https.nodePort': set('gateway.service.type=NodePort'),
  'api.service.externalTrafficPolicy': set('api.service.type=LoadBalancer'),
  'api.authentication.publicKey': set('api.authentication.jwksUrl=', 'api.authentication.publicKey=first'),
  'api.authentication.sharedSecret.existingSecret': shared,
  'api.authentication.sharedSecret.key': shared,
  'monitoring.serviceMonitor.interval': monitored,
  'monitoring.serviceMonitor.labels': monitored,
  'monitoring.dashboard.labels.grafana_dashboard': monitored,
  'monitoring.databases.podMonitor.interval': watched,
  'monitoring.databases.podMonitor.labels': watched,
  'monitoring.databases.rules.labels': watched,
  'archive.enabled': archive,
  'archive.store.claim': [
    ...set('archive.keySecret.name=first', 'archive.store.claim=first'),
    ...['--set', 'archive.enabled=true'],
  ],
  ...Object.fromEntries(ofArchive.map(name => [`archive.${name}`, archived])),
  'tls.source': certManager.slice(2),
  ...Object.fromEntries(['name', 'kind', 'group'].map(key => [`tls.certManager.issuerRef.${key}`, certManager])),
}
const listed: Record<string, unknown> = {
  imagePullSecrets: [{ name: 'other' }],
  tolerations: [{ key: 'other', operator: 'Exists' }],
  affinity: ownNodes,
  topologySpreadConstraints: [{ topologyKey: 'zone', maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway' }],
  images: { 17: 'registry.test/other:17' },
  pgvector: ['17'],
  deadlines: { creatingMs: 60_000 },
  backups: { schedules: false, spreadMs: 0, cutMs: 60_000 },
  rateLimits: { tenantPerSecond: 1 },
  idempotency: { recordsPerTenant: 50 },
  cors: { origins: ['https://other.test'] },
  login: { clientId: 'other' },
  trustedProxies: ['10.0.0.0/8'],
  dnsNames: ['other.test'],
  ipAddresses: ['203.0.113.9'],
  loadBalancerSourceRanges: ['10.0.0.0/8'],
  proxyProtocolFrom: ['10.0.0.0/8'],
  cidrs: ['10.0.0.0/8'],
  ports: [7443],
  apiFrom: [{ podSelector: {} }],
  metricsFrom: [{ podSelector: {} }],
  resources: { rag: { limits: { memory: '777Mi' } } },
  baseUrls: { openai: 'http://models.test:8080' },
  egress: [{ cidr: '203.0.113.0/24' }],
  from: ['10.0.0.0/8'],
  regions: [{ name: 'eu', domain: 'db.example.com', gateway: {} }],
}
const texts: Record<string, unknown> = {
  'image.pullPolicy': 'Always',
  logLevel: 'debug',
  'api.authentication.jwksUrl': 'https://other.test/keys',
  'monitoring.prometheus.url': 'http://prometheus.test:9090',
  'api.service.type': 'LoadBalancer',
  'api.service.externalTrafficPolicy': 'Cluster',
  'api.service.nodePort': 30500,
  'api.newTenants.databases': 7,
  'api.newTenants.branchesPerDatabase': 7,
  'archive.store.url': 's3://other',
  'archive.store.endpoint': 'https://other.test',
  'branches.highestDepth': 2,
  'gateway.service.type': 'NodePort',
  'tls.source': 'cert-manager',
  'tls.certManager.issuerRef.kind': 'Issuer',
  'gateway.ports.last': 30090,
  'gateway.https.nodePort': 30500,
  'services.replicas.mcp': 2,
  'services.upgradesAtOnce': 3,
  'services.replicas.rest': 2,
  'services.replicas.rag': 2,
}

/** Omits checksums, because a checksum also changes with values that no other field uses. */
const withoutChecksums = (objects: Rendered[]): string =>
  JSON.stringify(objects, (key, value) => (key.startsWith('checksum/') ? undefined : value))

/** Another value that is allowed at this path. */
function otherThan(name: string, value: unknown): unknown {
  const last = name.split('.').at(-1) ?? ''
  if (name in texts) return texts[name]
  if (last in listed) return listed[last]
  if (typeof value === 'boolean') return !value
  if (typeof value === 'number') return value + 1
  if (/^(cpu|memory)$/.test(last)) return last === 'cpu' ? '77m' : '777Mi'
  if (Array.isArray(value)) return [{ ...value[0], displayName: 'Other' }]
  return typeof value === 'object' ? { other: 'other' } : last === 'interval' ? '77s' : 'other'
}

describeChart('values of chart espalier', espalierChart, ({ rendered, refused }) => {
  describe('every value of values.yaml is used', () => {
    const without = new Map<string, string>()
    /** The chart rendered with a set of flags. Each set is rendered only once. */
    const unchanged = (flags: string[]): string => {
      const before = without.get(flags.join(' ')) ?? withoutChecksums(rendered(flags))
      without.set(flags.join(' '), before)
      return before
    }
    const values = parse(readFileSync(join(espalierChart, 'values.yaml'), 'utf8'), { merge: true })
    test.each(leavesOf(values))('%s', (name, value) => {
      const flags = [...minimal, ...(needs[name] ?? [])]
      const other = otherThan(name, value)
      const change =
        typeof other === 'string' ? set(`${name}=${other}`) : ['--set-json', `${name}=${JSON.stringify(other)}`]
      expect(withoutChecksums(rendered([...flags, ...change]))).not.toBe(unchanged(flags))
    })
  })

  const without = (flag: string) =>
    minimal.filter(
      (_, index) =>
        !minimal[index]?.startsWith(flag) &&
        !(minimal[index] === '--set-string' && minimal[index + 1]?.startsWith(flag)),
    )
  test.each([
    ['another namespace', [...minimal, '--namespace', 'default'], /--namespace espalier-system/],
    ['no image', without('image.repository'), /image.repository is required/],
    ['no Postgres', without('postgres.images'), /at least one version must have an image/],
    [
      'no way to verify tokens',
      without('api.authentication.jwksUrl'),
      /exactly one of jwksUrl, publicKey and sharedSecret/,
    ],
    ['a Prometheus with a password', [...minimal, ...set('monitoring.prometheus.url=http://a:b@p.test')], /url/],
    ['two ways to verify tokens', [...minimal, ...set('api.authentication.publicKey=abc')], /exactly one of jwksUrl/],
    [
      'keys fetched over http',
      [...needed, ...authentication, ...set('api.authentication.jwksUrl=http://issuer.test')],
      /jwksUrl/,
    ],
    ['no issuer', [...needed, ...jwks, ...set('api.authentication.audience=a')], /authentication.issuer is required/],
    ['a version that does not exist', [...minimal, ...set('postgres.images.15=a')], /15/],
    ['a misspelt value', [...minimal, '--set', 'operator.replica=3'], /replica/],
    ['no replica', [...minimal, '--set', 'api.replicas=0'], /replicas/],
    [
      'a port range in the wrong order',
      [...minimal, '--set', 'gateway.ports.first=31000,gateway.ports.last=30000'],
      /first must not be above last/,
    ],
    [
      'node ports out of range',
      [...minimal, '--set', 'gateway.service.type=NodePort,gateway.ports.first=15000,gateway.ports.last=15009'],
      /30000 to 32767/,
    ],
    [
      "the API's port among the databases'",
      [
        ...minimal,
        '--set',
        'gateway.service.type=NodePort,gateway.ports.first=30000,gateway.ports.last=30099',
        '--set',
        'api.service.type=NodePort,api.service.nodePort=30050',
      ],
      /api.service.nodePort/,
    ],
    [
      'a port of the gateway itself as a database port',
      [...minimal, '--set', 'gateway.ports.first=8000,gateway.ports.last=8100'],
      /8080/,
    ],
    [
      "the port of HTTPS among the databases'",
      [...minimal, '--set', 'gateway.ports.first=400,gateway.ports.last=500'],
      /gateway.https.port: it is one of gateway.ports/,
    ],
    [
      "the node port of HTTPS among the databases'",
      [...minimal, '--set', 'gateway.service.type=NodePort,gateway.https.nodePort=30050'],
      /gateway.https.nodePort: it is one of gateway.ports/,
    ],
    ['cert-manager without an issuer', [...minimal, ...set('tls.source=cert-manager')], /issuerRef.name is required/],
    [
      'a size without its memory',
      [...minimal, '--set', 'sizes[0].name=a,sizes[0].version=1,sizes[0].displayName=A,sizes[0].shape.connections=1'],
      /memoryLimit|shape/,
    ],
    [
      'a shared secret in the values',
      [...needed, ...authentication, ...set('api.authentication.sharedSecret=abc')],
      /sharedSecret/,
    ],
  ] as const)('refuses %s', (_, flags, message) => {
    expect(refused([...flags])).toMatch(message)
  })
})
