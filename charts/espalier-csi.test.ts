/** Invariants of the CSI driver's chart, since its driver is root on every node. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeChart, type Rendered } from './testing/helm.ts'

describeChart('chart espalier-csi', join(import.meta.dirname, 'espalier-csi'), ({ rendered, refused, lint }) => {
  const kinds = (kind: string) => rendered().filter(object => object.kind === kind)

  test('lints', () => lint())

  test('only the driver is privileged, and nothing uses the host’s network or processes', () => {
    const [{ spec }] = kinds('DaemonSet').map(({ spec: { template } }) => template)
    expect([spec.hostNetwork, spec.hostPID, spec.hostIPC]).toEqual([undefined, undefined, undefined])
    const [driver, ...sidecars] = spec.containers
    expect(driver.name).toBe('driver')
    expect(sidecars.map(({ name }: Rendered) => name)).toEqual(['provisioner', 'snapshotter', 'resizer'])
    for (const { name, securityContext, volumeMounts, resources } of sidecars) {
      expect(securityContext, name).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      })
      expect(securityContext.privileged, name).toBeUndefined()
      expect(volumeMounts, name).toEqual([{ name: 'socket', mountPath: '/csi' }])
      expect(resources.limits.memory, name).toBeDefined()
    }
  })

  test('nothing is mounted inside a mount that is shared with the node: the node would keep it, and duplicate it with each start', () => {
    const mounts: Rendered[] = kinds('DaemonSet').flatMap(({ spec }) => spec.template.spec.containers[0].volumeMounts)
    const shared = mounts.filter(({ mountPropagation }) => mountPropagation === 'Bidirectional')
    expect(shared.map(({ name }) => name)).toEqual(['kubelet', 'pool'])
    const isInside = ({ mountPath }: Rendered) => shared.some(outer => mountPath.startsWith(`${outer.mountPath}/`))
    expect(mounts.filter(isInside)).toEqual([])
  })

  test('in the cluster it can only read and write volumes, PVCs, snapshots and events', () => {
    const rules: Rendered[] = kinds('ClusterRole').flatMap(role => role.rules)
    expect(rules.flatMap(rule => [...rule.apiGroups, ...rule.resources, ...rule.verbs])).not.toContain('*')
    const writes = (verb: string) => !['get', 'list', 'watch'].includes(verb)
    const resources = (wanted: (rule: Rendered) => boolean) =>
      [...new Set(rules.filter(wanted).flatMap(rule => rule.resources))].sort()
    expect(resources(rule => rule.verbs.some(writes))).toEqual([
      'events',
      'persistentvolumeclaims',
      'persistentvolumeclaims/status',
      'persistentvolumes',
      'volumesnapshotcontents',
      'volumesnapshotcontents/status',
    ])
    expect(resources(rule => !rule.verbs.some(writes))).toEqual([
      'csinodes',
      'nodes',
      'storageclasses',
      'volumesnapshotclasses',
      'volumesnapshots',
    ])
  })

  test.each([
    ['a misspelt value', ['--set', 'pool.overcomit=2'], /overcomit/],
    ['a pool that is not an absolute path', ['--set', 'pool.directory=data'], /pool\/directory/],
    ['a pool that advertises no capacity', ['--set-json', 'pool.overcommit=0'], /overcommit/],
  ])('refuses %s', (_, flags, message) => {
    expect(refused([...flags])).toMatch(message)
  })
})
