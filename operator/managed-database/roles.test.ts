/**
 * A database from before pods had roles: an upgrade changes nothing, and after its next restart its Service selects by
 * role.
 */
import { expect, test } from 'vitest'
import type { Cluster, Pod } from '../../cluster/index.ts'
import { annotations, childNames, labels } from '../../crds/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
type Labels = Record<string, string> | undefined

const withoutRole = ({ [labels.role]: _, ...others }: NonNullable<Labels> = {}) => others
const podOf = async (id: string): Promise<Pod | undefined> =>
  it.cluster().get('Pod', { namespace: testNamespace, name: childNames.pod(id, 1) })
const selectorOf = async (id: string): Promise<Labels> =>
  (await it.cluster().get('Service', { namespace: testNamespace, name: childNames.service(id) }))?.spec?.selector

/** Removes the role from all objects, as an older operator left them. */
async function asBefore(id: string): Promise<void> {
  const older = it.installation().store.connect('espalier-operator')
  const pod = await podOf(id)
  const set = await older.get('StatefulSet', { namespace: testNamespace, name: childNames.statefulSet(id, 1) })
  const service = await older.get('Service', { namespace: testNamespace, name: childNames.service(id) })
  if (pod === undefined || set?.spec === undefined || service === undefined)
    throw new Error('the database does not serve')
  await older.replace('Pod', { ...pod, metadata: { ...pod.metadata, labels: withoutRole(pod.metadata.labels) } })
  const { template } = set.spec
  const metadata = { ...template.metadata, labels: withoutRole(template.metadata?.labels) }
  await older.replace('StatefulSet', { ...set, spec: { ...set.spec, template: { ...template, metadata } } })
  const selector = withoutRole(service.spec?.selector)
  await older.replace('Service', { ...service, spec: { ...service.spec, selector } })
}

test('a database of an operator without roles keeps its pod and selector until a restart adds the role to both', async () => {
  await it.create('older')
  const id = await it.idOf('older')
  expect(await selectorOf(id)).toMatchObject({ [labels.role]: 'primary' })
  await it.stopOperator()
  await asBefore(id)
  const before = await podOf(id)
  const astray: unknown[] = []
  /** Records each selector that the operator writes and that the current pod does not match. */
  const watched = (cluster: Cluster): Cluster => ({
    ...cluster,
    apply: async (kind, draft) => {
      const selector = kind === 'Service' ? (draft as { spec?: { selector?: Labels } }).spec?.selector : undefined
      const podLabels = selector && (await podOf(id))?.metadata.labels
      const isAstray = podLabels && Object.entries(selector).some(([name, value]) => podLabels[name] !== value)
      if (isAstray) astray.push({ selector, podLabels })
      return cluster.apply(kind, draft)
    },
  })
  await it.startOperator({ wrap: watched })
  const restart = '2026-01-01T00:00:00Z'
  await it.when('older', ({ status }) => status?.phase === 'available')
  const unchanged = await podOf(id)
  expect(unchanged?.metadata.uid).toBe(before?.metadata.uid)
  expect(unchanged?.metadata.labels).not.toHaveProperty(labels.role)
  expect(await selectorOf(id)).not.toHaveProperty(labels.role)

  await editSpec(it.cluster(), 'older', spec => spec, { [annotations.restart]: restart })
  const pod = await eventually(
    () => podOf(id),
    found => found !== undefined && found.metadata.uid !== before?.metadata.uid,
  )
  expect(pod?.metadata.labels).toMatchObject({ [labels.role]: 'primary' })
  await eventually(
    () => selectorOf(id),
    selector => selector?.[labels.role] === 'primary',
  )
  expect(astray).toEqual([])
})
