/** Permissions by the roles and admission policies of the chart `espalier`. */
import { once } from 'node:events'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { segmentName } from '../api/audit-log/segment.ts'
import { recordName } from '../api/idempotency/record.ts'
import type { Cluster, KindName, ListOptions, WatchOptions } from '../cluster/index.ts'
import { createMetrics } from '../controller/index.ts'
import {
  annotations,
  childNames,
  declarations,
  importSourceComponent,
  importSourceName,
  labels,
  type ManagedDatabaseStatus,
  serviceKeysName,
} from '../crds/index.ts'
import { createCaches } from '../operator/caches.ts'
import { systemIdentifierAnnotation } from '../operator/member/storage/claim.ts'
import { reclaimPolicyAnnotation } from '../operator/member/storage/persistent-volume.ts'
import { ownerKeyAnnotation, ownerUidAnnotation } from '../operator/objects/ownership.ts'
import { namespaceDraft } from '../operator/tenant/namespace.ts'
import { serviceKeysComponent } from '../sealing/service-keys.ts'
import { espalierChart, minimal } from './testing/espalier.ts'
import { describeChart, named, type Rendered } from './testing/helm.ts'

/** The kinds that the operator's caches list by the label of a database. */
async function kindsFollowedByLabel(): Promise<KindName[]> {
  const followed = new Set<KindName>()
  const cluster = {
    list: async (kind: KindName, { labels: selector }: ListOptions = {}) => {
      if (selector?.[labels.database] === true) followed.add(kind)
      return { items: [], resourceVersion: '1' }
    },
    watch: async function* (_: KindName, { signal }: WatchOptions) {
      yield { type: 'BOOKMARK', resourceVersion: '1' } as const
      if (!signal.aborted) await once(signal, 'abort')
    },
  }
  const caches = createCaches(cluster as unknown as Cluster, pino({ level: 'silent' }), createMetrics())
  await caches.start()
  if (caches.snapshots.served !== 'served') await new Promise<void>(resolve => caches.snapshots.onServed(resolve))
  await caches.stop()
  return [...followed]
}

/** The pattern of names in a part of a policy's expression. */
const patternOf = (expression: string): RegExp => new RegExp(/matches\('([^']+)'\)/.exec(expression)?.[1] ?? 'none')

describeChart('protection by chart espalier', espalierChart, ({ rendered }) => {
  test("the bootstrap may apply exactly Espalier's definitions", () => {
    const role = named(rendered(minimal), 'ClusterRole', 'espalier-bootstrap')
    const names = Object.values(declarations).map(({ plural }) => `${plural}.espalier.dev`)
    expect(role.rules[0].resourceNames.sort()).toEqual(names.sort())
  })

  test('tenants have namespaces that accept only restricted pods, and the policies select them by their label', () => {
    const { labels: namespaceLabels = {} } = namespaceDraft({
      spec: { tenantId: 'a', plan: { name: 'p' }, limits: { databases: 1 }, revokedMembers: [] },
    }).metadata
    expect(namespaceLabels['pod-security.kubernetes.io/enforce']).toBe('restricted')
    const policy = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-namespaces')
    expect(policy.spec.matchConditions[0].expression).toContain(`'espalier.dev/tenant' in`)
    expect(Object.keys(namespaceLabels)).toContain('espalier.dev/tenant')
  })

  test('only the operator may set the label by which it finds objects, and the annotations of their owner and data', async () => {
    const { spec } = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-metadata')
    const followed = await kindsFollowedByLabel()
    expect(followed).toContain('ConfigMap')
    const plural = (kind: string) => `${kind.toLowerCase()}s`.replace(/ys$/, 'ies')
    const guarded = spec.matchConstraints.resourceRules.flatMap((rule: Rendered) => rule.resources)
    // Pods are an exception: Kubernetes' own controllers create them, and the operator caches only a small part of
    // them.
    expect(guarded.sort()).toEqual(
      followed
        .filter(kind => kind !== 'Pod')
        .map(plural)
        .sort(),
    )
    const { expression } = spec.matchConditions[0]
    expect(expression).toContain(`'${labels.database}' in object.metadata.labels`)
    const [{ message }] = spec.validations
    expect(message).toContain(`metadata.labels["${labels.database}"]`)
    for (const annotation of [
      ownerUidAnnotation,
      ownerKeyAnnotation,
      systemIdentifierAnnotation,
      reclaimPolicyAnnotation,
      'espalier.dev/cut-of',
    ]) {
      expect(expression).toContain(`'${annotation}' in object.metadata.annotations`)
      expect(message).toContain(`metadata.annotations["${annotation}"]`)
    }
    expect(named(rendered(minimal), 'ValidatingAdmissionPolicyBinding', 'espalier-protected-metadata').spec).toEqual({
      policyName: 'espalier-protected-metadata',
      validationActions: ['Deny'],
    })
  })

  test('only the operator sets a backup purpose other than user, and purposes cannot change', () => {
    const { spec } = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-backup-purposes')
    expect(spec.matchConstraints.resourceRules).toEqual([
      { apiGroups: ['espalier.dev'], apiVersions: ['*'], resources: ['backups'], operations: ['CREATE', 'UPDATE'] },
    ])
    const [{ expression }] = spec.matchConditions
    for (const part of ["object.spec.purpose != 'user'", 'oldObject.spec.purpose != object.spec.purpose'])
      expect(expression).toContain(part)
    expect(spec.validations[0].expression).toContain("resource('backups').subresource('status').check('update')")
    const statusOf = (role: string) =>
      named(rendered(minimal), 'ClusterRole', role).rules.some(({ resources }: Rendered) =>
        resources?.includes('backups/status'),
      )
    expect(['espalier-operator', 'espalier-api'].map(statusOf)).toEqual([true, false])
    expect(named(rendered(minimal), 'ValidatingAdmissionPolicyBinding', 'espalier-backup-purposes').spec).toEqual({
      policyName: 'espalier-backup-purposes',
      validationActions: ['Deny'],
    })
  })

  test('the API may give the label only to the Secrets with keys of services and sources of imports', () => {
    const { spec } = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-metadata')
    const [{ expression }, ...others] = spec.validations
    expect(others).toEqual([])
    const [operator, keys, source, ...more] = expression.split(/\s*\|\|\s*/)
    expect(more).toEqual([])
    expect(operator).toContain(".subresource('status').check('update').allowed()")
    for (const condition of [
      "request.operation == 'CREATE'",
      "request.resource.resource == 'secrets'",
      "request.userInfo.username == 'system:serviceaccount:espalier-system:espalier-api'",
      '!has(object.metadata.annotations)',
    ])
      expect(keys).toContain(condition)
    expect(keys).toContain(`object.metadata.labels['${labels.component}'] == '${serviceKeysComponent}'`)
    expect(source).toContain(`object.metadata.labels['${labels.component}'] == '${importSourceComponent}'`)
    const id = '01a21938-e6b3-7aee-809d-bf38c593f783'
    const names = { keys: serviceKeysName(id, 'deadbeef'), source: importSourceName(id) }
    const patterns = { keys: patternOf(keys), source: patternOf(source) }
    for (const [kind, pattern] of Object.entries(patterns)) {
      expect(Object.entries(names).filter(([, name]) => pattern.test(name))).toEqual([
        [kind, names[kind as keyof typeof names]],
      ])
      expect('db-01a21938e6b37aee-1-data').not.toMatch(pattern)
    }
  })

  test('the API writes immutable Secrets with keys of services and sources of imports, and no others', () => {
    const { validations } = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-api-writes').spec
    const [{ expression }] = validations.filter((one: Rendered) => one.expression.includes("'secrets'"))
    expect(expression).toContain('has(object.immutable) && object.immutable')
    const pattern = patternOf(expression)
    const id = '01a21938-e6b3-7aee-809d-bf38c593f783'
    for (const name of [serviceKeysName(id, 'deadbeef'), importSourceName(id)]) expect(name).toMatch(pattern)
    for (const name of [childNames.import(id), 'db-01a21938e6b37aee-1-data', `x${importSourceName(id)}`])
      expect(name).not.toMatch(pattern)
  })

  test('the API writes ConfigMaps with responses and audit entries, in namespaces of tenants only', () => {
    const { validations } = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-api-writes').spec
    const [{ expression }] = validations.filter((one: Rendered) => one.expression.includes("'configmaps'"))
    const [inTenants] = expression.split('\n').join(' ').split("|| (request.operation == 'UPDATE'")
    expect(inTenants).toContain("request.namespace.startsWith('espalier-t-') && (request.name")
    const prefixes = [...inTenants.matchAll(/request\.name\.startsWith\('([^']+)'\)/g)].map(([, prefix]) => prefix)
    expect(prefixes).toEqual(['idempotency-', 'audit-'])
    expect(recordName('k').startsWith('idempotency-') && segmentName(1).startsWith('audit-')).toBe(true)
  })

  test('databases with branches are deleted by the API, with force, by an orphaning delete, and with their namespace', () => {
    const { matchConditions, validations } = named(
      rendered(minimal),
      'ValidatingAdmissionPolicy',
      'espalier-databases-with-branches',
    ).spec
    for (const field of ['blockingBranches', 'branchCount'] satisfies (keyof ManagedDatabaseStatus)[])
      expect(matchConditions[0].expression).toContain(`oldObject.status.${field} > 0`)
    for (const who of ['espalier-api', annotations.force, annotations.orphan, 'namespace-controller'])
      expect(validations[0].expression).toContain(who)
    for (const kind of ['manageddatabases', 'branches', 'backups']) {
      const { spec } = named(rendered(minimal), 'ValidatingAdmissionPolicy', `espalier-orphaned-${kind}`)
      expect(spec.matchConditions[0].expression).toContain("request.options.propagationPolicy == 'Orphan'")
      expect(spec.validations[0].expression.includes(annotations.orphan)).toBe(kind === 'manageddatabases')
    }
  })

  test('PVCs, volumes and snapshots of databases are deleted by the operator, with force, and with their namespace or storage', () => {
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
    const snapshots = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-snapshots').spec
    expect(snapshots.matchConstraints.resourceRules).toMatchObject([
      { apiGroups: ['snapshot.storage.k8s.io'], resources: ['volumesnapshots'], operations: ['DELETE'] },
    ])
    expect(snapshots.validations[0].expression).toBe(allowed.expression)
    const credentials = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-credentials').spec
    expect(credentials.matchConditions[0].expression).toContain("['espalier.dev/component'] == 'credentials'")
    expect(credentials.validations[0].expression).toBe(allowed.expression)
    const contents = named(rendered(minimal), 'ValidatingAdmissionPolicy', 'espalier-protected-snapshot-contents').spec
    const [, pattern = ''] = /matches\('(.*)'\)/.exec(contents.matchConditions[0].expression) ?? []
    expect(childNames.snapshot('01a2146d-3d90-793b-a7a5-44476fe4e0ed')).toMatch(new RegExp(pattern))
    const role = named(rendered(minimal), 'ClusterRole', 'espalier-operator')
    const rule = role.rules.find(({ resources }: Rendered) => resources.includes('persistentvolumes'))
    expect(rule.verbs).toEqual(['get', 'list', 'watch', 'create', 'update'])
  })
})
