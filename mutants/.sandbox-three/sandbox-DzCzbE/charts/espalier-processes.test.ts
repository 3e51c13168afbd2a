/** What the chart `espalier` tells the processes it starts, and what they tell in turn. */
// @ts-nocheck

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { wantedSizes } from '../operator/bootstrap/sizes.ts'
import { operatorConfiguration } from '../operator/configuration.ts'
import { espalierChart, minimal, ownNodes, variants } from './testing/espalier.ts'
import { describeChart, named, type Rendered } from './testing/helm.ts'

describeChart('processes of chart espalier', espalierChart, ({ rendered }) => {
  describe('the gateway', () => {
    const objects = rendered(variants['those of kind'])
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
    expect(configurationOf(variants.everything)).toEqual({
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

  test('the dashboard asks for metrics that there are', () => {
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
      // Families of figures are named by their common beginning.
      const known =
        code.includes(`'${base}'`) || (base.startsWith('workqueue_') && code.includes(`'${base.slice(10)}'`))
      expect(known, name).toBe(true)
    }
  })
})
