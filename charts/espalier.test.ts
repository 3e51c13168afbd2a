/** The chart `espalier`, rendered by Helm with several sets of values: the invariants of each result. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { apiConfiguration } from '../api/configuration.ts'
import { generatedFiles } from '../crds/generate.ts'
import { region, size } from '../crds/index.ts'
import { operatorConfiguration } from '../operator/configuration.ts'
import { espalierChart, variants } from './testing/espalier.ts'
import { describeChart, named, type Rendered } from './testing/helm.ts'

test('crds/ of the chart is exactly the output of `make crds`', () => {
  const directory = join(espalierChart, 'crds')
  const written = new Map(readdirSync(directory).map(name => [name, readFileSync(join(directory, name), 'utf8')]))
  expect(written).toEqual(generatedFiles())
})

describeChart('chart espalier', espalierChart, chart => {
  describe.each(Object.entries(variants))('with %s', (variant, flags) => {
    const archives = variant.startsWith('an archive')
    const objects = chart.rendered(flags)
    const pods = objects.flatMap(object => {
      const template = object.kind === 'Pod' ? object : object.spec?.template
      return template?.spec?.containers ? [{ name: object.metadata.name, template }] : []
    })
    const kinds = (kind: string) => objects.filter(object => object.kind === kind)

    test('lints', () => chart.lint(flags))

    test('every pod is restricted, has limits, and gets its image', () => {
      expect(pods.map(({ name }) => name).sort()).toEqual(
        [
          ...['espalier-api', 'espalier-bootstrap', 'espalier-gateway', 'espalier-operator', 'espalier-test'],
          ...(archives ? ['espalier-archive'] : []),
        ].sort(),
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
        ).toEqual(name === 'espalier-archive' && variant.endsWith('claim') ? ['persistentVolumeClaim'] : [])
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

    test('a pod has a token only if it calls the API server', () => {
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

    test('no rule has a wildcard, and no account may create roles, run commands in pods or impersonate', () => {
      for (const role of [...kinds('ClusterRole'), ...kinds('Role')])
        for (const rule of role.rules) {
          expect([...rule.apiGroups, ...rule.resources, ...rule.verbs], role.metadata.name).not.toContain('*')
          if (rule.apiGroups.includes('rbac.authorization.k8s.io')) {
            expect(['espalier-operator', 'espalier-bootstrap']).toContain(role.metadata.name)
            expect([['rolebindings'], ['clusterroles']]).toContainEqual(rule.resources)
          }
          // The policy espalier-operator-writes further restricts which roles are bound, and in which namespaces.
          if (rule.verbs.includes('bind'))
            expect(rule).toMatchObject({
              resources: ['clusterroles'],
              verbs: ['bind'],
              resourceNames: ['espalier-operator-tenant', 'espalier-api-tenant'],
            })
          expect(rule.verbs).not.toEqual(expect.arrayContaining(['impersonate']))
          for (const verb of ['escalate', 'deletecollection']) expect(rule.verbs).not.toContain(verb)
          expect(rule.resources.filter((resource: string) => /exec|attach|portforward|token/.test(resource))).toEqual(
            [],
          )
        }
      const writesSecrets = kinds('ClusterRole').filter(role =>
        role.rules.some((rule: Rendered) => rule.resources.includes('secrets') && rule.verbs.includes('create')),
      )
      // The policy espalier-api-writes restricts further which Secrets the API may create.
      expect(writesSecrets.map(role => role.metadata.name)).toEqual(['espalier-api-tenant', 'espalier-operator-tenant'])
    })

    test('every binding has an existing role and account', () => {
      for (const binding of [...kinds('ClusterRoleBinding'), ...kinds('RoleBinding')]) {
        expect(named(objects, binding.roleRef.kind, binding.roleRef.name), binding.metadata.name).toBeDefined()
        for (const { kind, name } of binding.subjects) expect(named(objects, kind, name)).toBeDefined()
      }
    })

    test('Services, budgets and policies select existing pods and ports', () => {
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

    test('the processes accept their configuration', () => {
      const text = (name: string, key: string) => parse(named(objects, 'ConfigMap', name).data[key])
      operatorConfiguration.parse(text('espalier-operator-configuration', 'operator.yaml'))
      const api = text('espalier-api-configuration', 'api.yaml')
      const isShared = api.authentication.jwksUrl === undefined && api.authentication.publicKey === undefined
      const sharedSecret = 'what stands in the file of the mounted Secret'
      apiConfiguration.parse(isShared ? { ...api, authentication: { ...api.authentication, sharedSecret } } : api)
      expect(JSON.stringify(kinds('ConfigMap'))).not.toContain('sharedSecret')
    })

    test('sizes and regions are objects of their kinds, and are kept when the release is deleted', () => {
      for (const object of [...kinds('Size'), ...kinds('Region')]) {
        expect(object.metadata.annotations).toMatchObject({ 'helm.sh/resource-policy': 'keep' })
        const declaration = object.kind === 'Size' ? size : region
        expect(declaration.spec.safeParse(object.spec).error).toBeUndefined()
      }
      expect(kinds('Size').length).toBeGreaterThan(0)
    })

    test('every object is in the namespace of the release, or has no namespace', () => {
      const namespaces = new Set(objects.map(object => object.metadata.namespace))
      expect([...namespaces].filter(namespace => namespace !== undefined)).toEqual(['espalier-system'])
    })
  })
})
