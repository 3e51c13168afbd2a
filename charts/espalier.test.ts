/** The chart `espalier`, rendered by Helm with several sets of values: what must hold of every one, and what is refused. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { apiConfiguration } from '../api/configuration.ts'
import { generatedFiles } from '../crds/generate.ts'
import { annotations, declarations, labels, region, size } from '../crds/index.ts'
import { wantedSizes } from '../operator/bootstrap/sizes.ts'
import { operatorConfiguration } from '../operator/configuration.ts'
import { ownerKeyAnnotation, ownerUidAnnotation } from '../operator/objects/ownership.ts'
import { namespaceDraft } from '../operator/tenant/controller.ts'
import { systemIdentifierAnnotation } from '../operator/workload/children/claim.ts'
import { reclaimPolicyAnnotation } from '../operator/workload/children/persistent-volume.ts'
import { isRecord } from '../values/record.ts'
import { findHelm, lint, type Rendered, render } from './testing/helm.ts'

const chart = join(import.meta.dirname, 'espalier')

test('crds/ of the chart is what `make crds` writes, and nothing else', () => {
  const directory = join(chart, 'crds')
  const written = new Map(readdirSync(directory).map(name => [name, readFileSync(join(directory, name), 'utf8')]))
  expect(written).toEqual(generatedFiles())
})

const set = (...pairs: string[]) => pairs.flatMap(pair => ['--set-string', pair])
const needed = set('image.repository=registry.test/espalier', 'postgres.images.18=registry.test/espalier-postgres:18')
const authentication = set('api.authentication.issuer=https://issuer.test', 'api.authentication.audience=espalier')
const jwks = set('api.authentication.jwksUrl=https://issuer.test:8443/keys')
const minimal = [...needed, ...authentication, ...jwks]
const ownNodes = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: ['databases'] }] }],
    },
  },
}
const variants: Record<string, string[]> = {
  'the least': minimal,
  'those of kind': ['-f', join(import.meta.dirname, '../e2e/kind/values.yaml')],
  everything: [
    ...minimal,
    ...set('tls.source=cert-manager', 'tls.certManager.issuerRef.name=ours', 'priorityClassName=high'),
    ...set('regions[0].name=eu', 'regions[0].domain=db.example.com', 'regions[0].gateway.host=203.0.113.7'),
    ...['--set', 'monitoring.serviceMonitor.enabled=true,monitoring.dashboard.enabled=true'],
    ...['--set', 'gateway.proxyProtocolFrom={10.0.0.0/8},imagePullSecrets[0].name=pull'],
    ...['--set', 'networkPolicies.apiFrom[0].namespaceSelector.matchLabels.a=b'],
    ...['--set', 'postgres.imagePullSecrets[0].name=pull,postgres.priorityClassName=databases'],
    ...['--set', 'postgres.nodeSelector.pool=databases,postgres.podDisruptionBudget.enabled=true'],
    ...['--set', 'postgres.tolerations[0].key=dedicated,postgres.tolerations[0].operator=Exists'],
    ...[
      '--set',
      'postgres.topologySpreadConstraints[0].topologyKey=zone,postgres.topologySpreadConstraints[0].maxSkew=1',
    ],
    ...['--set', 'postgres.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway'],
    ...['--set-json', `postgres.affinity=${JSON.stringify(ownNodes)}`],
  ],
  'a public key and plain HTTP': [
    ...needed,
    ...authentication,
    ...set('api.authentication.publicKey=-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----'),
    ...['--set', 'api.tls.enabled=false,networkPolicies.enabled=false,podDisruptionBudgets.enabled=false'],
  ],
}

/** Every value by its path; what is empty counts as one. */
function leavesOf(value: unknown, path = ''): [path: string, value: unknown][] {
  const entries = isRecord(value) ? Object.entries(value) : []
  if (entries.length === 0) return [[path, value]]
  return entries.flatMap(([key, inner]) => leavesOf(inner, path === '' ? key : `${path}.${key}`))
}

const monitored = ['--set', 'monitoring.serviceMonitor.enabled=true,monitoring.dashboard.enabled=true']
const certManager = set('tls.source=cert-manager', 'tls.certManager.issuerRef.name=ours')
const shared = set('api.authentication.jwksUrl=', 'api.authentication.sharedSecret.existingSecret=first')
/** What else must be said for a value to count. */
const needs: Record<string, string[]> = {
  'api.service.nodePort': set('api.service.type=NodePort'),
  'api.service.externalTrafficPolicy': set('api.service.type=LoadBalancer'),
  'api.authentication.publicKey': set('api.authentication.jwksUrl=', 'api.authentication.publicKey=first'),
  'api.authentication.sharedSecret.existingSecret': shared,
  'api.authentication.sharedSecret.key': shared,
  'monitoring.serviceMonitor.interval': monitored,
  'monitoring.serviceMonitor.labels': monitored,
  'monitoring.dashboard.labels.grafana_dashboard': monitored,
  'tls.source': certManager.slice(2),
  ...Object.fromEntries(['name', 'kind', 'group'].map(key => [`tls.certManager.issuerRef.${key}`, certManager])),
}
const listed: Record<string, unknown> = {
  imagePullSecrets: [{ name: 'other' }],
  tolerations: [{ key: 'other', operator: 'Exists' }],
  affinity: ownNodes,
  topologySpreadConstraints: [{ topologyKey: 'zone', maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway' }],
  images: { 17: 'registry.test/other:17' },
  deadlines: { creatingMs: 60_000 },
  rateLimits: { tenantPerSecond: 1 },
  trustedProxies: ['10.0.0.0/8'],
  dnsNames: ['other.test'],
  ipAddresses: ['203.0.113.9'],
  loadBalancerSourceRanges: ['10.0.0.0/8'],
  proxyProtocolFrom: ['10.0.0.0/8'],
  cidrs: ['10.0.0.0/8'],
  ports: [7443],
  apiFrom: [{ podSelector: {} }],
  metricsFrom: [{ podSelector: {} }],
  regions: [{ name: 'eu', domain: 'db.example.com', gateway: {} }],
}
const texts: Record<string, unknown> = {
  'image.pullPolicy': 'Always',
  logLevel: 'debug',
  'api.authentication.jwksUrl': 'https://other.test/keys',
  'api.service.type': 'LoadBalancer',
  'api.service.externalTrafficPolicy': 'Cluster',
  'api.service.nodePort': 30500,
  'api.newTenants.databases': 7,
  'gateway.service.type': 'NodePort',
  'tls.source': 'cert-manager',
  'tls.certManager.issuerRef.kind': 'Issuer',
  'gateway.ports.last': 30090,
}

/** A checksum changes with values that nothing else uses. */
const withoutChecksums = (objects: Rendered[]): string =>
  JSON.stringify(objects, (key, value) => (key.startsWith('checksum/') ? undefined : value))

/** Another value that is allowed there. */
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

const helm = findHelm()
if (helm === undefined) test.skip('chart espalier: needs helm')
else describeChart(helm)

function describeChart(program: string): void {
  const rendered = (flags: string[]): Rendered[] => {
    const result = render(program, chart, flags)
    if (!result.ok) throw new Error(result.message)
    return result.objects
  }
  const refused = (flags: string[]): string => {
    const result = render(program, chart, flags)
    if (result.ok) throw new Error('it was rendered')
    return result.message
  }
  const named = (objects: Rendered[], kind: string, name: string) =>
    objects.find(object => object.kind === kind && object.metadata.name === name)

  describe.each(Object.entries(variants))('with %s', (_, flags) => {
    const objects = rendered(flags)
    const pods = objects.flatMap(object => {
      const template = object.kind === 'Pod' ? object : object.spec?.template
      return template?.spec?.containers ? [{ name: object.metadata.name, template }] : []
    })
    const kinds = (kind: string) => objects.filter(object => object.kind === kind)

    test('lints', () => lint(program, chart, flags))

    test('every pod is restricted, bounded, and told which image', () => {
      expect(pods.map(({ name }) => name).sort()).toEqual(
        ['espalier-api', 'espalier-bootstrap', 'espalier-gateway', 'espalier-operator', 'espalier-test'].sort(),
      )
      for (const { name, template } of pods) {
        const { spec } = template
        expect(spec.securityContext, name).toMatchObject({
          runAsNonRoot: true,
          runAsUser: 10001,
          seccompProfile: { type: 'RuntimeDefault' },
        })
        expect([spec.hostNetwork, spec.hostPID, spec.hostIPC], name).toEqual([undefined, undefined, undefined])
        const types = new Set((spec.volumes ?? []).flatMap((volume: object) => Object.keys(volume)))
        expect(
          [...types].filter(type => !['name', 'configMap', 'secret', 'emptyDir', 'projected'].includes(String(type))),
        ).toEqual([])
        for (const container of [...spec.containers, ...(spec.initContainers ?? [])]) {
          expect(container.securityContext, container.name).toEqual({
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          })
          expect(container.image).toMatch(/^[a-z0-9./-]+\/espalier:[\w.-]+$/)
          expect(container.resources, container.name).toMatchObject({
            requests: { memory: expect.anything() },
            limits: { memory: expect.anything() },
          })
        }
      }
    })

    test('a pod has a token only where it calls the API server', () => {
      const automounted = pods.filter(({ template }) => template.spec.automountServiceAccountToken !== false)
      expect(automounted.map(({ name }) => name).sort()).toEqual([
        'espalier-api',
        'espalier-bootstrap',
        'espalier-operator',
      ])
      expect(kinds('ServiceAccount').every(account => account.automountServiceAccountToken === false)).toBe(true)
      const gateway = pods.find(({ name }) => name === 'espalier-gateway')?.template.spec
      const mounts = (name: string) =>
        gateway.containers
          .find((container: Rendered) => container.name === name)
          .volumeMounts.map((mount: Rendered) => mount.name)
      expect(mounts('haproxy')).toEqual(['run'])
      expect(mounts('agent')).toContain('token')
    })

    test('no rule has a wildcard, and nobody may make roles, run commands in pods or impersonate', () => {
      for (const role of [...kinds('ClusterRole'), ...kinds('Role')])
        for (const rule of role.rules) {
          expect([...rule.apiGroups, ...rule.resources, ...rule.verbs], role.metadata.name).not.toContain('*')
          expect(rule.apiGroups).not.toContain('rbac.authorization.k8s.io')
          expect(rule.verbs).not.toEqual(expect.arrayContaining(['impersonate']))
          for (const verb of ['escalate', 'bind', 'deletecollection']) expect(rule.verbs).not.toContain(verb)
          expect(rule.resources.filter((resource: string) => /exec|attach|portforward|token/.test(resource))).toEqual(
            [],
          )
        }
      const writesSecrets = kinds('ClusterRole').filter(role =>
        role.rules.some((rule: Rendered) => rule.resources.includes('secrets') && rule.verbs.includes('create')),
      )
      expect(writesSecrets.map(role => role.metadata.name)).toEqual(['espalier-operator'])
    })

    test('every binding is of a role and an account that are there', () => {
      for (const binding of [...kinds('ClusterRoleBinding'), ...kinds('RoleBinding')]) {
        expect(named(objects, binding.roleRef.kind, binding.roleRef.name), binding.metadata.name).toBeDefined()
        for (const { kind, name } of binding.subjects) expect(named(objects, kind, name)).toBeDefined()
      }
    })

    test('Services, budgets and policies select pods that are there, by ports that they have', () => {
      const selects = (labels: Record<string, string>) =>
        pods.filter(({ template }) =>
          Object.entries(labels).every(([key, value]) => template.metadata.labels[key] === value),
        )
      for (const service of kinds('Service')) expect(selects(service.spec.selector)).toHaveLength(1)
      for (const budget of kinds('PodDisruptionBudget'))
        expect(selects(budget.spec.selector.matchLabels)).toHaveLength(1)
      for (const policy of kinds('NetworkPolicy'))
        expect(selects(policy.spec.podSelector.matchLabels).length, policy.metadata.name).toBeGreaterThan(0)
      for (const deployment of kinds('Deployment'))
        expect(selects(deployment.spec.selector.matchLabels).map(({ name }) => name)).toEqual([
          deployment.metadata.name,
        ])
    })

    test('the processes take their configuration', () => {
      const text = (name: string, key: string) => parse(named(objects, 'ConfigMap', name).data[key])
      operatorConfiguration.parse(text('espalier-operator-configuration', 'operator.yaml'))
      const api = text('espalier-api-configuration', 'api.yaml')
      const isShared = api.authentication.jwksUrl === undefined && api.authentication.publicKey === undefined
      const sharedSecret = 'what stands in the file of the mounted Secret'
      apiConfiguration.parse(isShared ? { ...api, authentication: { ...api.authentication, sharedSecret } } : api)
      expect(JSON.stringify(kinds('ConfigMap'))).not.toContain('sharedSecret')
    })

    test('sizes and regions are objects of their kinds, and outlive the release', () => {
      for (const object of [...kinds('Size'), ...kinds('Region')]) {
        expect(object.metadata.annotations).toMatchObject({ 'helm.sh/resource-policy': 'keep' })
        const declaration = object.kind === 'Size' ? size : region
        expect(declaration.spec.safeParse(object.spec).error).toBeUndefined()
      }
      expect(kinds('Size').length).toBeGreaterThan(0)
    })

    test('all of it is in the namespace of the release, or in none', () => {
      const namespaces = new Set(objects.map(object => object.metadata.namespace))
      expect([...namespaces].filter(namespace => namespace !== undefined)).toEqual(['espalier-system'])
    })
  })

  describe('the gateway', () => {
    const objects = rendered(variants['those of kind'] ?? [])
    test('has one Service port, node port and container range for the ports of its regions', () => {
      const { spec } = named(objects, 'Service', 'espalier-gateway')
      const expected = Array.from({ length: 20 }, (_, index) => 30002 + index)
      expect(spec.ports.map((port: Rendered) => port.nodePort)).toEqual(expected)
      expect(spec.ports.map((port: Rendered) => port.targetPort)).toEqual(expected)
      expect(spec.externalTrafficPolicy).toBe('Local')
      expect(named(objects, 'Region', 'local').spec.gateway.ports).toEqual({ first: 30002, last: 30021 })
      const { containers, initContainers } = named(objects, 'Deployment', 'espalier-gateway').spec.template.spec
      for (const container of [initContainers[0], containers.find((one: Rendered) => one.name === 'agent')])
        expect(container.args).toContain('30002-30021')
    })
  })

  test("what is said of databases' pods reaches the operator", () => {
    const configurationOf = (flags: string[]) => {
      const { data } = named(rendered(flags), 'ConfigMap', 'espalier-operator-configuration')
      return operatorConfiguration.parse(parse(data['operator.yaml'])).pods
    }
    expect(configurationOf(minimal)).toEqual(operatorConfiguration.shape.pods.parse({}))
    expect(configurationOf(variants.everything ?? [])).toEqual({
      imagePullSecrets: [{ name: 'pull' }],
      priorityClassName: 'databases',
      nodeSelector: { pool: 'databases' },
      tolerations: [{ key: 'dedicated', operator: 'Exists' }],
      affinity: ownNodes,
      topologySpreadConstraints: [{ topologyKey: 'zone', maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway' }],
      terminationGracePeriodSeconds: 1800,
      disruptionBudget: true,
    })
  })

  describe('every value of values.yaml is used', () => {
    const values = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'), { merge: true })
    test.each(leavesOf(values))('%s', (name, value) => {
      const flags = [...minimal, ...(needs[name] ?? [])]
      const other = otherThan(name, value)
      const change =
        typeof other === 'string' ? set(`${name}=${other}`) : ['--set-json', `${name}=${JSON.stringify(other)}`]
      expect(withoutChecksums(rendered([...flags, ...change]))).not.toBe(withoutChecksums(rendered(flags)))
    })
  })

  test('definitions that the bootstrap may apply are all of ours, and no other', () => {
    const role = named(rendered(minimal), 'ClusterRole', 'espalier-bootstrap')
    const names = Object.values(declarations).map(({ plural }) => `${plural}.espalier.dev`)
    expect(role.rules[0].resourceNames.sort()).toEqual(names.sort())
  })

  test('tenants have namespaces where only restricted pods run, and the policies know them by their label', () => {
    const { labels: marks = {} } = namespaceDraft({
      spec: { tenantId: 'a', plan: { name: 'p' }, limits: { databases: 1 }, revokedMembers: [] },
    }).metadata
    expect(marks['pod-security.kubernetes.io/enforce']).toBe('restricted')
    const policy = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-namespaces')
    expect(policy.spec.matchConditions[0].expression).toContain(`'espalier.dev/tenant' in`)
    expect(Object.keys(marks)).toContain('espalier.dev/tenant')
  })

  test('what the operator keeps by its label alone, nobody else may give that label', () => {
    const { spec } = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-marks')
    const caches = readFileSync(join(import.meta.dirname, '../operator/caches.ts'), 'utf8')
    const followed = [...caches.matchAll(/follow\('[\w-]+', '(\w+)', \{\s*\.\.\.labelled/g)].map(
      ([, kind = '']) => kind,
    )
    expect(followed).toContain('ConfigMap')
    const plural = (kind: string) => `${kind.toLowerCase()}s`.replace(/ys$/, 'ies')
    const guarded = spec.matchConstraints.resourceRules.flatMap((rule: Rendered) => rule.resources)
    // Pods are made by Kubernetes' own controllers, and next to nothing is kept of them.
    expect(guarded.sort()).toEqual(
      followed
        .filter(kind => kind !== 'Pod')
        .map(plural)
        .sort(),
    )
    const { expression } = spec.matchConditions[0]
    expect(expression).toContain(`'${labels.database}' in object.metadata.labels`)
    for (const mark of [ownerUidAnnotation, ownerKeyAnnotation, systemIdentifierAnnotation, reclaimPolicyAnnotation])
      expect(expression).toContain(`'${mark}' in object.metadata.annotations`)
    expect(named(rendered(minimal), 'ValidatingAdmissionPolicyBinding', 'espalier-marks').spec).toEqual({
      policyName: 'espalier-marks',
      validationActions: ['Deny'],
    })
  })

  test('the bootstrap is told every size as it will be applied, and looks before it changes anything', () => {
    const objects = rendered(minimal)
    const { args } = named(objects, 'Job', 'espalier-bootstrap').spec.template.spec.containers[0]
    const sizes = wantedSizes.parse(JSON.parse(args[args.indexOf('--sizes') + 1]))
    const applied = objects.filter(object => object.kind === 'Size').map(({ spec }) => spec)
    expect(sizes).toEqual(applied.map(({ name, version, shape }) => ({ name, version, shape })))
    // Where the kind is served, the cluster is asked already while rendering; without a cluster that finds nothing.
    expect(rendered([...minimal, '--api-versions', 'espalier.dev/v1alpha1/Size'])).toEqual(objects)
  })

  test('no account that comes by itself gets every port, unless you say so', () => {
    const newTenants = (...flags: string[]) =>
      parse(named(rendered([...minimal, ...flags]), 'ConfigMap', 'espalier-api-configuration').data['api.yaml'])
        .newTenants
    expect(newTenants()).toEqual({ databases: 25 })
    expect(newTenants('--set', 'gateway.ports.first=30000,gateway.ports.last=30001')).toEqual({ databases: 1 })
    expect(newTenants('--set', 'api.newTenants.databases=0')).toEqual({ databases: 0 })
    expect(newTenants('--set', 'api.newTenants.databases=100')).toEqual({ databases: 100 })
  })

  test("the API's metrics are on a port that no Service has, for whoever may read metrics, or nowhere", () => {
    const objects = rendered(variants.everything ?? [])
    const { containers } = named(objects, 'Deployment', 'espalier-api').spec.template.spec
    expect(containers[0].ports).toEqual([
      { name: 'api', containerPort: 8443 },
      { name: 'metrics', containerPort: 8080 },
    ])
    for (const service of objects.filter(object => object.kind === 'Service' && object.metadata.name.includes('api')))
      for (const port of service.spec.ports) expect([port.port, port.targetPort]).not.toContain('metrics')
    expect(named(objects, 'NetworkPolicy', 'espalier-api').spec.ingress).toContainEqual({
      from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
      ports: [{ protocol: 'TCP', port: 8080 }],
    })
    expect(named(objects, 'PodMonitor', 'espalier-api').spec.podMetricsEndpoints).toMatchObject([{ port: 'metrics' }])

    const off = rendered([...(variants.everything ?? []), '--set', 'api.metrics.enabled=false'])
    expect(named(off, 'PodMonitor', 'espalier-api')).toBeUndefined()
    expect(JSON.stringify(named(off, 'NetworkPolicy', 'espalier-api').spec.ingress)).not.toContain('8080')
    expect(parse(named(off, 'ConfigMap', 'espalier-api-configuration').data['api.yaml']).http).toBeUndefined()
  })

  test('claims and volumes of databases are deleted by the operator, by force, and with their namespace or storage', () => {
    const claims = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-claims').spec
    expect(claims.matchConstraints.resourceRules).toMatchObject([
      { resources: ['persistentvolumeclaims'], operations: ['DELETE'] },
    ])
    expect(claims.matchConditions[0].expression).toContain(`'${labels.database}' in oldObject.metadata.labels`)
    const [allowed] = claims.validations
    for (const who of ['espalier-operator', annotations.force, 'namespace-controller'])
      expect(allowed.expression).toContain(who)
    const volumes = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-volumes').spec
    expect(volumes.matchConditions[0].expression).toContain("oldObject.status.phase == 'Bound'")
    expect(volumes.matchConditions[0].expression).toContain(`'${reclaimPolicyAnnotation}' in`)
    const role = named(rendered(minimal), 'ClusterRole', 'espalier-operator')
    const rule = role.rules.find(({ resources }: Rendered) => resources.includes('persistentvolumes'))
    expect(rule.verbs).toEqual(['get', 'list', 'watch', 'create', 'update'])
  })

  test('the dashboard asks for metrics that there are', () => {
    const sources = [
      'controller/metrics.ts',
      'operator/managed-database/metrics.ts',
      'api/metrics.ts',
      'gateway/metrics.ts',
      'gateway/haproxy/index.ts',
    ]
    const code = sources.map(path => readFileSync(join(import.meta.dirname, '..', path), 'utf8')).join('\n')
    const dashboard = JSON.parse(readFileSync(join(chart, 'dashboards/espalier.json'), 'utf8'))
    const queries: string[] = dashboard.panels.flatMap((panel: Rendered) =>
      panel.targets.map((target: Rendered) => target.expr),
    )
    const names = queries.flatMap(query => query.match(/\b(espalier|workqueue)_[a-z_]+/g) ?? [])
    expect(names.length).toBeGreaterThan(8)
    for (const name of names) {
      const base = name.replace(/_(bucket|count|sum)$/, '')
      // Families of figures are named by their common beginning.
      const known =
        code.includes(`'${base}'`) || (base.startsWith('workqueue_') && code.includes(`'${base.slice(10)}'`))
      expect(known, name).toBe(true)
    }
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
    ['two ways to verify tokens', [...minimal, ...set('api.authentication.publicKey=abc')], /exactly one of jwksUrl/],
    [
      'keys fetched in the clear',
      [...needed, ...authentication, ...set('api.authentication.jwksUrl=http://issuer.test')],
      /jwksUrl/,
    ],
    ['no issuer', [...needed, ...jwks, ...set('api.authentication.audience=a')], /authentication.issuer is required/],
    ['a version that there is not', [...minimal, ...set('postgres.images.15=a')], /15/],
    ['a misspelt value', [...minimal, '--set', 'operator.replica=3'], /replica/],
    ['no replica', [...minimal, '--set', 'api.replicas=0'], /replicas/],
    [
      'ports the wrong way round',
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
      'a port of its own as a database port',
      [...minimal, '--set', 'gateway.ports.first=8000,gateway.ports.last=8100'],
      /8080/,
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
}
