/** The configuration that the chart `espalier` passes to its processes, and metrics and alerts about them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { apiConfiguration } from '../api/configuration.ts'
import { haproxyDefaults, renderConfiguration } from '../gateway/haproxy/configuration.ts'
import { pathsIn } from '../gateway/haproxy/paths.ts'
import { agentPort } from '../instance/agent/contract.ts'
import { exposition } from '../instance/agent/exposition.ts'
import { measureNames, type Sample } from '../instance/agent/measures.ts'
import { wantedSizes } from '../operator/bootstrap/sizes.ts'
import { operatorConfiguration } from '../operator/configuration.ts'
import { statefulSetDraft } from '../operator/member/pod/stateful-set.ts'
import { podSettings } from '../operator/pod-settings.ts'
import { servicePorts } from '../operator/service/configuration/ports.ts'
import { smallShape } from '../operator/testing/samples.ts'
import { systemCertificates } from '../sealing/credentials.ts'
import { samplesPorts } from '../server/samples.ts'
import { espalierChart, minimal, ownNodes, set, variants } from './testing/espalier.ts'
import { describeChart, named, type Rendered } from './testing/helm.ts'

/** The pod of a database, as the operator creates it. */
const statefulSetPod = () => {
  const owner = {
    ...{
      kind: 'ManagedDatabase' as const,
      namespace: 'espalier-t-0',
      name: 'shop',
      uid: 'u',
      hostLabel: 'shop-6ba7b810',
    },
    id: '6ba7b810-9dad-41d1-80b4-00c04fd430c8',
  }
  const size = { name: 'small', version: 1 }
  const workload = {
    owner,
    incarnation: 1,
    number: 0,
    image: 'i',
    size,
    shape: smallShape,
    volume: 'v',
    suspended: false,
  }
  return statefulSetDraft({ ...workload, pods: podSettings.parse({}), role: 'primary' }).spec?.template.metadata ?? {}
}

describeChart('processes of chart espalier', espalierChart, ({ rendered }) => {
  describe('the gateway', () => {
    const objects = rendered(variants['those of kind'])
    test('has one Service port, node port and container range for the ports of its regions', () => {
      const { spec } = named(objects, 'Service', 'espalier-gateway')
      const expected = Array.from({ length: 20 }, (_, index) => 30002 + index)
      const ports = spec.ports.filter((port: Rendered) => port.name !== 'https')
      expect(ports.map((port: Rendered) => port.nodePort)).toEqual(expected)
      expect(ports.map((port: Rendered) => port.targetPort)).toEqual(expected)
      expect(spec.externalTrafficPolicy).toBe('Local')
      expect(named(objects, 'Region', 'local').spec.gateway.ports).toEqual({ first: 30002, last: 30021 })
      const { containers, initContainers } = named(objects, 'Deployment', 'espalier-gateway').spec.template.spec
      for (const container of [initContainers[0], containers.find((one: Rendered) => one.name === 'agent')])
        expect(container.args).toContain('30002-30021')
    })
    const httpsOf = (flags: string[]) => {
      const all = rendered([...flags, ...set('regions[0].name=eu', 'regions[0].domain=db.example.com')])
      const { initContainers, containers } = named(all, 'Deployment', 'espalier-gateway').spec.template.spec
      const [{ args }] = initContainers
      const policy = named(all, 'NetworkPolicy', 'espalier-gateway').spec.ingress[0].ports
      return {
        listens: args[args.indexOf('--https-port') + 1],
        container: containers[0].ports.find((port: Rendered) => port.name === 'https').containerPort,
        admitted: policy.map((port: Rendered) => port.port),
        service: named(all, 'Service', 'espalier-gateway').spec.ports.find((port: Rendered) => port.name === 'https'),
        region: named(all, 'Region', 'eu').spec.gateway.https,
      }
    }
    test('listens for HTTPS, and regions contain the port for clients', () => {
      expect(httpsOf(minimal)).toEqual({
        ...{ listens: '8443', container: 8443, admitted: [30000, 8443] },
        service: { name: 'https', port: 443, targetPort: 'https', protocol: 'TCP' },
        region: { port: 443 },
      })
      const nodePort = [...minimal, ...['--set', 'gateway.service.type=NodePort,gateway.https.nodePort=31443']]
      expect(httpsOf(nodePort)).toMatchObject({ service: { port: 443, nodePort: 31443 }, region: { port: 31443 } })
      const unknown = [...minimal, ...['--set', 'gateway.service.type=NodePort']]
      expect(httpsOf(unknown).region).toBeUndefined()
      const own = [...minimal, ...['--set', 'regions[0].gateway.https.port=8443']]
      expect(httpsOf(own).region).toEqual({ port: 8443 })
    })
    test('listens on another port in its pod if a database could use the port', () => {
      const among = [...minimal, ...['--set', 'gateway.ports.first=8406,gateway.ports.last=8500']]
      expect(httpsOf(among)).toMatchObject({ listens: '8404', container: 8404, admitted: [8406, 8404] })
    })
    test("only the agent has certificates' keys, and it starts before certificates exist", () => {
      const { containers, volumes } = named(objects, 'Deployment', 'espalier-gateway').spec.template.spec
      const volume = volumes.find((one: Rendered) => one.name === 'https')
      expect(volume.secret).toMatchObject({ secretName: 'espalier-gateway-https', optional: true })
      const having = containers.filter((one: Rendered) =>
        one.volumeMounts.some((mount: Rendered) => mount.name === 'https'),
      )
      expect(having.map((one: Rendered) => one.name)).toEqual(['agent'])
    })
  })

  test("settings of databases' pods reach the operator", () => {
    const configurationOf = (flags: string[]) => {
      const { data } = named(rendered(flags), 'ConfigMap', 'espalier-operator-configuration')
      return operatorConfiguration.parse(parse(data['operator.yaml'])).pods
    }
    expect(configurationOf(minimal)).toEqual(operatorConfiguration.shape.pods.parse({ apiConnects: true }))
    expect(configurationOf([...minimal, '--set', 'api.sql.enabled=false']).apiConnects).toBe(false)
    expect(configurationOf(variants.everything)).toEqual({
      imagePullSecrets: [{ name: 'pull' }],
      priorityClassName: 'databases',
      nodeSelector: { pool: 'databases' },
      tolerations: [{ key: 'dedicated', operator: 'Exists' }],
      affinity: ownNodes,
      topologySpreadConstraints: [{ topologyKey: 'zone', maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway' }],
      terminationGracePeriodSeconds: 1800,
      disruptionBudget: true,
      apiConnects: true,
      metricsFrom: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
    })
  })

  test('settings of services reach the operator', () => {
    const configurationOf = (...flags: string[]) => {
      const { data } = named(rendered([...minimal, ...flags]), 'ConfigMap', 'espalier-operator-configuration')
      return operatorConfiguration.parse(parse(data['operator.yaml']))
    }
    const { images, services } = configurationOf()
    expect(images.services).toMatch(/^registry\.test\/espalier:/)
    expect(services).toEqual(operatorConfiguration.shape.services.parse({}))
    const egress = [{ cidr: '10.0.0.0/8', except: ['10.96.0.0/12'] }]
    const resources = { rag: { requests: { cpu: '50m' }, limits: { memory: '512Mi' } } }
    const changed = configurationOf(
      ...set('services.image=registry.test/services:1', 'services.baseUrls.openai=http://10.0.0.9:8000'),
      ...['--set', 'services.replicas.rest=2', '--set-json', `services.egress=${JSON.stringify(egress)}`],
      ...['--set-json', `services.resources=${JSON.stringify(resources)}`],
    )
    expect(changed.images.services).toBe('registry.test/services:1')
    expect(changed.services).toMatchObject({
      ...{ replicas: { rest: 2, rag: 'auto' }, egress, baseUrls: { openai: 'http://10.0.0.9:8000' } },
      resources: { rag: { requests: { cpu: '50m', memory: '96Mi' }, limits: { memory: '512Mi' } } },
    })
  })

  test('the bootstrap gets every size as it will be applied, and checks the sizes before it changes anything', () => {
    const objects = rendered(minimal)
    const { args } = named(objects, 'Job', 'espalier-bootstrap').spec.template.spec.containers[0]
    const sizes = wantedSizes.parse(JSON.parse(args[args.indexOf('--sizes') + 1]))
    const applied = objects.filter(object => object.kind === 'Size').map(({ spec }) => spec)
    expect(sizes).toEqual(applied.map(({ name, version, shape }) => ({ name, version, shape })))
    // If the kind is served, rendering already queries the cluster. Without a cluster, the query finds nothing.
    expect(rendered([...minimal, '--api-versions', 'espalier.dev/v1alpha1/Size'])).toEqual(objects)
  })

  test('an account that its first write creates cannot use every port, unless configured', () => {
    const newTenants = (...flags: string[]) =>
      parse(named(rendered([...minimal, ...flags]), 'ConfigMap', 'espalier-api-configuration').data['api.yaml'])
        .newTenants
    expect(newTenants()).toEqual({ databases: 25 })
    expect(newTenants('--set', 'gateway.ports.first=30000,gateway.ports.last=30001')).toEqual({ databases: 1 })
    expect(newTenants('--set', 'api.newTenants.databases=0')).toEqual({ databases: 0 })
    expect(newTenants('--set', 'api.newTenants.databases=100')).toEqual({ databases: 100 })
  })

  test("the API's metrics are on a port without a Service, for the allowed collectors, or off", () => {
    const objects = rendered(variants.everything)
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

    const off = rendered([...variants.everything, '--set', 'api.metrics.enabled=false'])
    expect(named(off, 'PodMonitor', 'espalier-api')).toBeUndefined()
    expect(JSON.stringify(named(off, 'NetworkPolicy', 'espalier-api').spec.ingress)).not.toContain('8080')
    expect(parse(named(off, 'ConfigMap', 'espalier-api-configuration').data['api.yaml']).http).toBeUndefined()
  })

  test('the operator resolves the names of sources of imports, also without an archive', () => {
    const { egress } = named(rendered(minimal), 'NetworkPolicy', 'espalier-operator').spec
    const ports = egress.flatMap((rule: Rendered) => rule.ports.map(({ port }: Rendered) => port))
    expect(ports).toEqual([443, 6443, 5432, 53, 53])
  })

  test('the API gets the address of a Prometheus, and can reach it and the agents of databases', () => {
    const egressOf = (...flags: string[]) =>
      named(rendered([...minimal, ...flags]), 'NetworkPolicy', 'espalier-api').spec.egress
    const configurationOf = (...flags: string[]) =>
      parse(named(rendered([...minimal, ...flags]), 'ConfigMap', 'espalier-api-configuration').data['api.yaml'])
    const ports = (...flags: string[]) =>
      egressOf(...flags).flatMap((rule: Rendered) => rule.ports.map(({ port }: Rendered) => port))
    const others = [samplesPorts.first, samplesPorts.second, 8443]
    const { mcp, rest, rag } = servicePorts
    const services = [mcp.tools, mcp.bridge, rest.http, rag.http]
    expect(ports()).toEqual([443, 6443, 53, 53, agentPort, 5432, ...services, ...others])
    // Without SQL, the API reaches neither Postgres nor services.
    const off = ['--set', 'api.sql.enabled=false']
    expect(ports(...off)).toEqual([443, 6443, 53, 53, agentPort, ...others])
    expect([configurationOf().sql, configurationOf(...off).sql]).toEqual([{ enabled: true }, { enabled: false }])
    expect(ports(...set('monitoring.prometheus.url=http://p.test'))).toContain(80)
    expect(ports(...set('monitoring.prometheus.url=https://p.test:9443/prefix'))).toContain(9443)
    expect(configurationOf().prometheus).toBeUndefined()
    expect(
      apiConfiguration.parse(configurationOf(...set('monitoring.prometheus.url=http://p.test'))).prometheus,
    ).toEqual({ url: 'http://p.test' })
  })

  describe('the metrics of databases', () => {
    const objects = rendered(variants.everything)
    const operatorsOf = (from: Rendered[]) =>
      operatorConfiguration.parse(
        parse(named(from, 'ConfigMap', 'espalier-operator-configuration').data['operator.yaml']),
      )
    const whole = Object.fromEntries(measureNames.map(name => [name, 1])) as Sample['values']
    const exported = new Set(
      [...exposition('id', { at: 0, values: whole }).matchAll(/^(espalier_\w+)\{/gm)].map(([, name]) => name),
    )
    const namesIn = (text: string) => text.match(/\bespalier_postgres_\w+/g) ?? []

    test("are collected with a certificate that the operator then issues, through each database's NetworkPolicy", () => {
      const [endpoint] = named(objects, 'PodMonitor', 'espalier-databases').spec.podMetricsEndpoints
      expect(endpoint).toMatchObject({ port: 'agent', path: '/metrics', scheme: 'https' })
      const { cert, keySecret } = endpoint.tlsConfig
      expect([cert.secret.name, keySecret.name]).toEqual(Array(2).fill(systemCertificates.metricsClient))
      expect(operatorsOf(objects)).toMatchObject({ certificates: { metricsClient: true } })
      expect(operatorsOf(rendered(minimal))).toMatchObject({
        certificates: { metricsClient: false },
        pods: { metricsFrom: [] },
      })
      const { labels } = statefulSetPod()
      expect(labels).toMatchObject(named(objects, 'PodMonitor', 'espalier-databases').spec.selector.matchLabels)
    })

    test('have alerts on existing metrics, with instructions', () => {
      const [{ rules }] = named(objects, 'PrometheusRule', 'espalier-databases').spec.groups
      expect(rules.length).toBeGreaterThan(8)
      for (const { alert, expr, labels, annotations } of rules) {
        expect(namesIn(expr).length, alert).toBeGreaterThan(0)
        for (const name of namesIn(expr)) expect(exported, alert).toContain(name)
        expect(['warning', 'critical'], alert).toContain(labels.severity)
        expect(annotations.summary, alert).toContain('{{ $labels.espalier_id }}')
        expect(annotations.description.length, alert).toBeGreaterThan(20)
      }
      expect(new Set(rules.map(({ alert }: Rendered) => alert)).size).toBe(rules.length)
    })

    test('have alerts about their services, on existing metrics', () => {
      const [{ rules }] = named(objects, 'PrometheusRule', 'espalier-services').spec.groups
      expect(rules.map(({ alert }: Rendered) => alert)).toEqual([
        'EspalierServiceRestarting',
        'EspalierGatewayServiceErrors',
        'EspalierGatewayServicesSlow',
        'EspalierServicesFailed',
        'EspalierServicesMisconfigured',
        'EspalierDatabasesDegraded',
      ])
      const https = { port: 8443, maxConnections: 1, placeholder: { cert: '', key: '' } }
      const configuration = renderConfiguration({
        ...{ ...haproxyDefaults, paths: pathsIn('/run'), ports: { first: 1, last: 2 }, https },
      })
      const backends = [...configuration.matchAll(/^backend (services-\w+)/gm)].map(([, name]) => name)
      expect(backends).toEqual(['services-mcp', 'services-rest', 'services-rag'])
      const code = readFileSync(join(import.meta.dirname, '../operator/managed-database/metrics.ts'), 'utf8')
      for (const { alert, expr } of rules)
        for (const [name] of expr.matchAll(/\bespalier_[a-z_]+/g)) expect(code, alert).toContain(`'${name}'`)
      for (const { alert, expr, labels, annotations } of rules) {
        expect(expr.split('(').length, alert).toBe(expr.split(')').length)
        expect(['info', 'warning', 'critical'], alert).toContain(labels.severity)
        expect(annotations.description.length, alert).toBeGreaterThan(20)
      }
    })

    test('have a dashboard that shows every metric of databases, and no other metric', () => {
      const { data } = named(objects, 'ConfigMap', 'espalier-dashboard')
      const dashboard = JSON.parse(data['espalier-databases.json'])
      const queries: string[] = dashboard.panels.flatMap(({ targets }: Rendered) =>
        targets.map(({ expr }: Rendered) => expr),
      )
      expect(new Set(queries.flatMap(namesIn))).toEqual(exported)
      for (const query of queries) {
        expect(query).toContain('{espalier_id=~"$database"}')
        expect(query.split('(').length).toBe(query.split(')').length)
      }
      expect(new Set(dashboard.panels.map(({ id }: Rendered) => id)).size).toBe(dashboard.panels.length)
      expect(namesIn(JSON.stringify(dashboard.templating))).toEqual(['espalier_postgres_up'])
    })
  })

  test('the dashboard queries existing metrics', () => {
    const sources = [
      'controller/metrics.ts',
      'operator/managed-database/metrics.ts',
      'api/metrics.ts',
      'gateway/metrics.ts',
      'gateway/haproxy/index.ts',
    ]
    const code = sources.map(path => readFileSync(join(import.meta.dirname, '..', path), 'utf8')).join('\n')
    const dashboard = JSON.parse(readFileSync(join(espalierChart, 'dashboards/espalier.json'), 'utf8'))
    const queries: string[] = dashboard.panels.flatMap((panel: Rendered) =>
      panel.targets.map((target: Rendered) => target.expr),
    )
    const names = queries.flatMap(query => query.match(/\b(espalier|workqueue)_[a-z_]+/g) ?? [])
    expect(names.length).toBeGreaterThan(8)
    for (const name of names) {
      const base = name.replace(/_(bucket|count|sum)$/, '')
      // The common prefix of metrics names a family of metrics.
      const known =
        code.includes(`'${base}'`) || (base.startsWith('workqueue_') && code.includes(`'${base.slice(10)}'`))
      expect(known, name).toBe(true)
    }
  })
})
