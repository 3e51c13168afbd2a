/** Kubernetes' built-in kinds: the defaults, limits and immutable fields that Espalier relies on. */
import { describe, expect, test } from 'vitest'
import { smallest, statefulSet } from '../../cluster/testing/conformance/drafts.ts'
import { refusal, remove, untyped } from '../../cluster/testing/conformance/suite.ts'
import type { Admission } from './index.ts'
import { configMap, testStore } from './testing/store.ts'

describe('a Secret', () => {
  test('that is immutable keeps its data, but its labels may change', async () => {
    const { cluster } = await testStore()
    const draft = smallest.Secret('default', 'one')
    const secret = await cluster.create('Secret', { ...draft, immutable: true })
    const data = { password: 'b3RoZXI=' }
    const { message } = await refusal(cluster.replace('Secret', { ...secret, data }), 'Invalid')
    expect(message).toBe('Secret "one" is invalid: data: Forbidden: field is immutable when `immutable` is set')
    await refusal(cluster.replace('Secret', { ...secret, immutable: false }), 'Invalid')
    await refusal(cluster.apply('Secret', { ...draft, data }), 'Invalid')
    const labelled = { ...secret, metadata: { ...secret.metadata, labels: { a: '1' } } }
    expect((await cluster.replace('Secret', labelled)).metadata.labels).toEqual({ a: '1' })
  })

  test('never shows its data in a refusal, and never changes its type', async () => {
    const { cluster } = await testStore()
    const draft = smallest.Secret('default', 'one')
    const wrong = { ...draft, data: { password: 'hunter2 is not base64' } }
    expect((await refusal(cluster.create('Secret', wrong), 'Invalid')).message).not.toContain('hunter2')
    const secret = await cluster.create('Secret', draft)
    const { message } = await refusal(cluster.replace('Secret', { ...secret, type: 'other' }), 'Invalid')
    expect(message).toContain('type: Invalid value: "other": field is immutable')
  })

  test('accepts stringData and stores it as data', async () => {
    const { cluster } = await testStore()
    const { data: _data, ...draft } = smallest.Secret('default', 'one')
    const secret = await cluster.create('Secret', { ...draft, stringData: { word: 'plain' } })
    expect(secret.data).toEqual({ word: btoa('plain') })
    expect(secret).not.toHaveProperty('stringData')
  })
})

test('a ConfigMap contains text under keys that are valid file names, and at most 1 MiB', async () => {
  const { cluster } = await testStore()
  await refusal(cluster.create('ConfigMap', configMap('one', { 'a/b': '' })), 'Invalid')
  await refusal(cluster.create('ConfigMap', untyped({ ...configMap('one'), data: { a: 1 } })), 'Invalid')
  const { message } = await refusal(
    cluster.create('ConfigMap', configMap('one', { a: 'x'.repeat(2 ** 20 + 1) })),
    'Invalid',
  )
  expect(message).toContain('data: Too long: may not be more than 1048576 bytes')
})

describe('a claim', () => {
  const local = (storageClassName = 'local') => {
    const draft = smallest.PersistentVolumeClaim('default', 'one')
    return { ...draft, spec: { ...draft.spec, storageClassName } }
  }

  test('has an immutable spec; a bound claim may change its request, but a smaller request must exceed the granted size', async () => {
    const { cluster } = await testStore()
    const claim = await cluster.create('PersistentVolumeClaim', local())
    expect(claim.status?.phase).toBe('Pending')
    const withStorage = (from: typeof claim, storage: string) => ({
      ...from,
      spec: { ...from.spec, resources: { requests: { storage } } },
    })
    await refusal(cluster.replace('PersistentVolumeClaim', withStorage(claim, '2Gi')), 'Invalid')
    const named = await cluster.replace('PersistentVolumeClaim', { ...claim, spec: { ...claim.spec, volumeName: 'v' } })
    const bound = await cluster.replaceStatus('PersistentVolumeClaim', {
      ...named,
      status: { phase: 'Bound', capacity: { storage: '1Gi' } },
    })
    const grown = await cluster.replace('PersistentVolumeClaim', withStorage(bound, '2Gi'))
    expect(grown.spec?.resources?.requests?.storage).toBe('2Gi')
    const lowered = await cluster.replace('PersistentVolumeClaim', withStorage(grown, '1500Mi'))
    expect(lowered.spec?.resources?.requests?.storage).toBe('1500Mi')
    for (const less of ['1Gi', '512Mi']) {
      const { message } = await refusal(cluster.replace('PersistentVolumeClaim', withStorage(lowered, less)), 'Invalid')
      expect(message).toContain(
        'spec.resources.requests.storage: Forbidden: field can not be less than status.capacity',
      )
    }
    await refusal(
      cluster.replace('PersistentVolumeClaim', { ...lowered, spec: { ...lowered.spec, storageClassName: 'other' } }),
      'Invalid',
    )
    await refusal(
      cluster.replace('PersistentVolumeClaim', { ...lowered, spec: { ...lowered.spec, volumeName: 'w' } }),
      'Invalid',
    )
  })

  test('may request more storage only if its class allows expansion and every admission policy permits it', async () => {
    const quota: Admission = ({ operation, object }) =>
      operation === 'update' &&
      object.kind === 'PersistentVolumeClaim' &&
      object.spec?.resources?.requests?.storage === '3Gi'
        ? 'exceeded quota: storage, requested: requests.storage=2Gi, used: requests.storage=1Gi, limited: requests.storage=2Gi'
        : undefined
    const { cluster } = await testStore({ growsIn: name => name === 'local', admissions: [quota] })
    const bound = async (storageClassName: string) => {
      const claim = await cluster.create('PersistentVolumeClaim', local(storageClassName))
      const status = { phase: 'Bound', capacity: { storage: '1Gi' } }
      return cluster.replaceStatus('PersistentVolumeClaim', { ...claim, status })
    }
    const requestStorage = (claim: Awaited<ReturnType<typeof bound>>, storage: string) =>
      cluster.replace('PersistentVolumeClaim', {
        ...claim,
        spec: { ...claim.spec, resources: { requests: { storage } } },
      })
    const expectedMessage =
      'persistentvolumeclaims "one" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize'
    for (const name of ['fixed', '']) {
      const claim = await bound(name)
      expect((await refusal(requestStorage(claim, '2Gi'), 'Forbidden')).message).toBe(expectedMessage)
      expect((await cluster.get('PersistentVolumeClaim', claim.metadata))?.metadata).toEqual(claim.metadata)
      await remove(cluster, 'PersistentVolumeClaim', claim.metadata)
    }
    const claim = await bound('local')
    const { message } = await refusal(requestStorage(claim, '3Gi'), 'Forbidden')
    expect(message).toContain('persistentvolumeclaims "one" is forbidden: exceeded quota: storage')
    await requestStorage(claim, '2Gi')
  })

  test('must state its access modes and storage request', async () => {
    const { cluster } = await testStore()
    const { message } = await refusal(
      cluster.create('PersistentVolumeClaim', { ...smallest.PersistentVolumeClaim('default', 'one'), spec: {} }),
      'Invalid',
    )
    expect(message).toContain('spec.accessModes: Required value')
    expect(message).toContain('spec.resources[storage]: Required value')
  })
})

test('each of several Service ports needs a name; port names, and pairs of number and protocol, are unique', async () => {
  const { cluster } = await testStore()
  const draft = smallest.Service('default', 'one')
  const create = (ports: { name?: string; port: number; protocol?: 'TCP' | 'UDP' }[]) =>
    cluster.create('Service', { ...draft, spec: { ...draft.spec, ports } })
  const refused = async (ports: Parameters<typeof create>[0]) => (await refusal(create(ports), 'Invalid')).message
  const http = { name: 'http', port: 80 }
  expect(await refused([http, { port: 81 }])).toContain('spec.ports[1].name: Required value')
  expect(await refused([http, { ...http, port: 81 }])).toContain('spec.ports[1].name: Duplicate value: "http"')
  expect(await refused([http, { name: 'other', port: 80, protocol: 'TCP' }])).toContain(
    'spec.ports[1]: Duplicate value',
  )
  await create([http, { name: 'other', port: 80, protocol: 'UDP' }])
})

describe('among workloads,', () => {
  test('a StatefulSet cannot change the fields that name its pods and volumes', async () => {
    const { cluster } = await testStore()
    const set = await cluster.create('StatefulSet', statefulSet('default', 'one'))
    expect(set.metadata.generation).toBe(1)
    const spec = set.spec
    if (spec === undefined) throw new Error('the StatefulSet has no spec')
    const { message } = await refusal(
      cluster.replace('StatefulSet', { ...set, spec: { ...spec, serviceName: 'other' } }),
      'Invalid',
    )
    expect(message).toMatch(
      /^StatefulSet.apps "one" is invalid: spec: Forbidden: updates to statefulset spec for fields/,
    )
    const scaled = await cluster.replace('StatefulSet', {
      ...set,
      spec: { ...spec, replicas: 1, updateStrategy: { type: 'OnDelete' } },
    })
    expect(scaled.metadata.generation).toBe(2)
    const status = await cluster.replaceStatus('StatefulSet', { ...scaled, status: { replicas: 1 } })
    expect(status).toMatchObject({ metadata: { generation: 2 }, status: { replicas: 1 } })
  })

  test("a workload's selector must match its template's labels, and every container must have an image", async () => {
    const { cluster } = await testStore()
    const draft = statefulSet('default', 'one')
    const spec = { ...draft.spec, selector: { matchLabels: { other: 'label' } } }
    const { message } = await refusal(cluster.create('StatefulSet', untyped({ ...draft, spec })), 'Invalid')
    expect(message).toContain('`selector` does not match template `labels`')
    await refusal(cluster.create('StatefulSet', statefulSet('default', 'one', [])), 'Invalid')
    await refusal(cluster.create('StatefulSet', statefulSet('default', 'one', [{ name: 'a' }])), 'Invalid')
  })

  test('a Pod is bound to a node once, and of its containers only the images can change', async () => {
    const { cluster } = await testStore()
    const pod = await cluster.create('Pod', smallest.Pod('default', 'one'))
    expect(pod.status?.phase).toBe('Pending')
    const spec = pod.spec
    if (spec === undefined) throw new Error('the Pod has no spec')
    const bound = await cluster.replace('Pod', { ...pod, spec: { ...spec, nodeName: 'here' } })
    await refusal(cluster.replace('Pod', { ...bound, spec: { ...spec, nodeName: 'there' } }), 'Invalid')
    await refusal(
      cluster.replace('Pod', { ...bound, spec: { ...spec, nodeName: 'here', hostNetwork: true } }),
      'Invalid',
    )
    const image = { ...spec, nodeName: 'here', containers: [{ name: 'main', image: 'newer' }] }
    expect((await cluster.replace('Pod', { ...bound, spec: image })).spec?.containers[0]?.image).toBe('newer')
  })

  test("a Job's template, a Deployment's selector, a snapshot's source and a Service's address are immutable", async () => {
    const { cluster } = await testStore()
    const job = await cluster.create('Job', smallest.Job('default', 'one'))
    const template = { spec: { containers: [{ name: 'main', image: 'other' }] } }
    await refusal(cluster.replace('Job', untyped({ ...job, spec: { ...job.spec, template } }) as typeof job), 'Invalid')
    const deployment = await cluster.create('Deployment', smallest.Deployment('default', 'one'))
    const labels = { name: 'one', more: 'yes' }
    const moved = {
      ...deployment.spec,
      selector: { matchLabels: labels },
      template: { ...deployment.spec?.template, metadata: { labels } },
    }
    await refusal(
      cluster.replace('Deployment', untyped({ ...deployment, spec: moved }) as typeof deployment),
      'Invalid',
    )
    const snapshot = await cluster.create('VolumeSnapshot', smallest.VolumeSnapshot('default', 'one'))
    const spec = { source: { persistentVolumeClaimName: 'other' } }
    await refusal(cluster.replace('VolumeSnapshot', { ...snapshot, spec }), 'Invalid')
    const service = await cluster.create('Service', smallest.Service('default', 'one'))
    await refusal(
      cluster.replace('Service', { ...service, spec: { ...service.spec, clusterIP: '10.0.0.1' } }),
      'Invalid',
    )
  })
})
