/** Missing or broken objects are restored; those that must not be replaced are not. */
import { X509Certificate } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { KindName, PersistentVolumeClaim } from '../../cluster/index.ts'
import { childNames, labels, rotationAnnotations, systemNamespace } from '../../crds/index.ts'
import { authoritySecret, sealingKeySecret } from '../../sealing/credentials.ts'
import { systemIdentifierAnnotation } from '../member/storage/claim.ts'
import { condition, hasCondition, isPhase, type NamedChild, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
const open = { ipAllowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }

const remove = async (kind: KindName, database: string, child: NamedChild) => {
  const found = await it.child(kind, database, child)
  await it.cluster().delete(kind, { namespace: testNamespace, name: found?.metadata.name ?? '' })
  return found?.metadata.uid
}

describe('the operator restores', () => {
  test.each([
    ['Service', 'service'],
    ['NetworkPolicy', 'service'],
    ['ConfigMap', 'configuration'],
    ['StatefulSet', 'statefulSet'],
    ['Pod', 'pod'],
    ['Secret', 'tls'],
  ] as const)('a %s', async (kind, child) => {
    const name = `lost${kind}${child}`.toLowerCase()
    const database = await it.create(name, open)
    const uid = await remove(kind, name, child)
    const recreated = await eventually(
      () => it.child(kind, name, child),
      found => found !== undefined && found.metadata.uid !== uid,
    )
    expect(recreated).toBeDefined()
    const healed = await it.when(
      name,
      found => isPhase('available')(found) && condition(found, 'Ready')?.status === 'True',
    )
    expect(healed.status?.volume).toEqual(database.status?.volume)
    expect(it.workload().postgres.initialised.get(database.status?.volume?.uid ?? '')).toBe(1)
  })

  test('the certificate of the agent without a restart if an older operator issued only the others', async () => {
    const before = await it.create('agentless', open)
    const pod = await it.child('Pod', 'agentless', 'pod')
    const found = await it.child('Secret', 'agentless', 'tls')
    if (found === undefined) throw new Error('the object is missing')
    const { 'monitor.crt': first, 'monitor.key': _, ...data } = found.data ?? {}
    const ofMonitor = new X509Certificate(Buffer.from(first ?? '', 'base64'))
    expect(ofMonitor.subject).toBe(`CN=espalier-monitor-${await it.idOf('agentless')}`)
    await it.cluster().replace('Secret', { ...found, data })
    const recreated = await eventually(
      () => it.child('Secret', 'agentless', 'tls'),
      secret => secret?.data?.['monitor.crt'] !== undefined && secret.data['monitor.key'] !== undefined,
    )
    expect(recreated?.data?.['monitor.crt']).not.toBe(first)
    await it.when('agentless', hasCondition('Ready', 'Serving'))
    expect((await it.child('Pod', 'agentless', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    const after = await it.when('agentless', isPhase('available'))
    expect(after.status?.operation).toEqual(before.status?.operation)
  })

  test('a route with its port and its rules', async () => {
    const database = await it.create('lostroute', open)
    const id = await it.idOf('lostroute')
    const port = database.status?.endpoint?.port
    await it.cluster().delete('ConfigMap', { namespace: systemNamespace, name: `route-${port}` })
    await eventually(
      () => it.routesOf(id),
      ([route]) => route?.port === port && route?.rules[0] === '0.0.0.0/0',
    )
    await it.when('lostroute', hasCondition('Ready', 'Serving'))
  })

  test('images that another client changed in the pod, without replacing it', async () => {
    await it.create('edited', open)
    const pod = await it.child('Pod', 'edited', 'pod')
    if (pod?.spec === undefined) throw new Error('no pod')
    const containers = pod.spec.containers.map(container => ({ ...container, image: 'postgres:none' }))
    await it
      .installation()
      .store.connect('kubectl-edit')
      .replace('Pod', { ...pod, spec: { ...pod.spec, containers } })
    const healed = await eventually(
      () => it.child('Pod', 'edited', 'pod'),
      found => found?.spec?.containers.every(({ image }) => image === 'postgres:18') === true,
    )
    expect(healed?.metadata.uid).toBe(pod.metadata.uid)
  })

  test('rules that another client widened', async () => {
    const database = await it.create('widened', { ipAllowlist: { rules: [{ cidr: '10.0.0.0/8' }] } })
    const id = await it.idOf('widened')
    const key = { namespace: systemNamespace, name: `route-${database.status?.endpoint?.port}` }
    const route = await it.cluster().get('ConfigMap', key)
    if (route === undefined) throw new Error('no route')
    const data = { 'route.json': route.data?.['route.json']?.replace('10.0.0.0/8', '0.0.0.0/0') ?? '' }
    await it.cluster().replace('ConfigMap', { ...route, data })
    await eventually(
      () => it.routesOf(id),
      ([found]) => found?.rules[0] === '10.0.0.0/8',
    )
  })

  test('credentials only if a user requests new ones', async () => {
    const database = await it.create('lostsecret')
    const data = it.workload().postgres.data.get(database.status?.volume?.uid ?? '')
    const version = data?.roles.app?.passwordVersion
    await remove('Secret', 'lostsecret', 'credentials')
    const reported = await it.when('lostsecret', hasCondition('CredentialsReady', 'CredentialsLost'))
    expect(condition(reported, 'CredentialsReady')?.message).toContain('espalier.dev/rotate-password-app')
    // Other missing objects are created, and clients that know a password are served.
    const before = await remove('StatefulSet', 'lostsecret', 'statefulSet')
    await eventually(
      () => it.child('StatefulSet', 'lostsecret', 'statefulSet'),
      found => found !== undefined && found.metadata.uid !== before,
    )
    await it.when('lostsecret', found => isPhase('available')(found) && condition(found, 'Ready')?.status === 'True')
    expect(await it.child('Secret', 'lostsecret', 'credentials')).toBeUndefined()
    expect(data?.roles.app?.passwordVersion).toBe(version)
    await editSpec(it.cluster(), 'lostsecret', spec => spec, { [rotationAnnotations.app]: 'new' })
    await it.when('lostsecret', hasCondition('CredentialsReady', 'InOrder'))
    expect(await it.child('Secret', 'lostsecret', 'credentials')).toBeDefined()
    expect(data?.roles.app?.passwordVersion).not.toBe(version)
    await it.when('lostsecret', found => isPhase('available')(found) && condition(found, 'Ready')?.status === 'True')
  })

  test('credentials that another client made immutable, by creating them again', async () => {
    await it.create('sealed')
    const secret = await it.child('Secret', 'sealed', 'credentials')
    if (secret === undefined) throw new Error('there are no credentials')
    await it.cluster().replace('Secret', { ...secret, immutable: true })
    const seen = await it.when('sealed', hasCondition('CredentialsReady', 'SecretImmutable'))
    expect(condition(seen, 'CredentialsReady')?.message).toContain(`Secret ${secret.metadata.name}: immutable: `)
    expect([condition(seen, 'Ready')?.status, seen.status?.phase]).toEqual(['True', 'available'])
    const { namespace, name, labels, annotations } = secret.metadata
    await it.cluster().delete('Secret', { namespace, name })
    const { apiVersion, kind, type, data } = secret
    const metadata = { name, ...(namespace && { namespace }), ...{ labels, annotations } }
    await it.cluster().create('Secret', { apiVersion, kind, type, data, metadata } as never)
    await it.when('sealed', hasCondition('CredentialsReady', 'InOrder'))
    await editSpec(it.cluster(), 'sealed', spec => spec, { [rotationAnnotations.app]: 'new' })
    await eventually(
      () => it.child('Secret', 'sealed', 'credentials'),
      found => found !== undefined && found.data?.app !== data?.app,
    )
  })

  test('a claimRef that another client changed', async () => {
    const database = await it.create('astray')
    const { volumeName: name = '', uid } = database.status?.volume ?? {}
    const volume = await it.cluster().get('PersistentVolume', { name })
    if (volume?.spec === undefined) throw new Error('there is no volume')
    const claimRef = { ...volume.spec.claimRef, name: 'another', uid: 'another-uid' }
    await it.cluster().replace('PersistentVolume', { ...volume, spec: { ...volume.spec, claimRef } })
    const healed = await eventually(
      () => it.cluster().get('PersistentVolume', { name }),
      found => found?.spec?.claimRef?.uid === uid,
    )
    expect(healed?.spec?.claimRef?.name).toBe(volume.spec.claimRef?.name)
    await eventually(
      () => it.cluster().get('PersistentVolume', { name }),
      found => found?.spec?.persistentVolumeReclaimPolicy === volume.spec?.persistentVolumeReclaimPolicy,
    )
    await it.when('astray', found => condition(found, 'Ready')?.status === 'True')
  })

  test('an id label that another client removed', async () => {
    const database = await it.create('unlabelled')
    const id = await it.idOf('unlabelled')
    const { labels: _, ...metadata } = database.metadata
    const current = await it.when('unlabelled', found => found.status?.operation === undefined)
    await it.cluster().replace('ManagedDatabase', {
      ...current,
      metadata: { ...metadata, resourceVersion: current.metadata.resourceVersion ?? '' },
    })
    await eventually(
      () => it.idOf('unlabelled'),
      found => found === id,
    )
  })
})

describe('a lost volume', () => {
  /** Its claim is deleted by force and its pod ends while no operator runs: the storage deletes the data. */
  const lose = async (name: string): Promise<PersistentVolumeClaim> => {
    const claim = await it.child('PersistentVolumeClaim', name, 'claim')
    const pod = await it.child('Pod', name, 'pod')
    if (claim === undefined || pod === undefined) throw new Error('no claim or pod')
    await it.when(name, ({ status }) => status?.operation === undefined && status?.volume?.volumeName !== undefined)
    await it.stopOperator()
    await it.deleteClaimByForce({ namespace: testNamespace, name: claim.metadata.name })
    await it.cluster().delete('Pod', { namespace: testNamespace, name: pod.metadata.name })
    await eventually(
      () => it.cluster().get('PersistentVolume', { name: claim.spec?.volumeName ?? '' }),
      volume => volume === undefined,
    )
    expect(it.workload().postgres.data.has(claim.metadata.uid ?? '')).toBe(false)
    return claim
  }

  test('makes the database failed, and never starts an empty one', async () => {
    const database = await it.create('lostvolume', open)
    const id = await it.idOf('lostvolume')
    const { name } = (await lose('lostvolume')).metadata
    await it.startOperator()
    const failed = await it.when('lostvolume', isPhase('failed'))
    expect(condition(failed, 'VolumeReady')).toMatchObject({ status: 'False', reason: 'VolumeLost' })
    await eventually(
      () => it.routesOf(id),
      ([route]) => route?.rules.length === 0,
    )
    await eventually(
      () => it.child('Pod', 'lostvolume', 'pod'),
      pod => pod === undefined,
    )
    // Another client creates a claim of that name: it is not the recorded one, and Postgres does not start on it.
    const { metadata, spec } = {
      metadata: { name, namespace: testNamespace },
      spec: { accessModes: ['ReadWriteOnce'] },
    }
    await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { ...metadata, labels: { [labels.database]: id } },
      spec: { ...spec, resources: { requests: { storage: '1Gi' } } },
    })
    const still = await it.when(
      'lostvolume',
      found => condition(found, 'VolumeReady')?.message.includes('another') === true,
    )
    expect(still.status).toMatchObject({ phase: 'failed', volume: database.status?.volume })
    expect((await it.child('StatefulSet', 'lostvolume', 'statefulSet'))?.spec?.replicas).toBe(0)
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'lostvolume' })
    await it.untilDeleted('lostvolume')
  })

  test.each([
    ['serves again when its claim is restored with its volume', 'ours', 'available'],
    ['does not serve with a claim that has other data', '1', 'failed'],
  ] as const)('%s', async (_what, identifier, phase) => {
    const name = `putback${phase}`
    const before = await it.create(name, open)
    const { uid = '', systemIdentifier = '' } = before.status?.volume ?? {}
    const data = it.workload().postgres.data.get(uid)
    const { metadata, spec } = await lose(name)
    expect(metadata.annotations?.[systemIdentifierAnnotation]).toBe(systemIdentifier)
    await it.startOperator()
    await it.when(name, hasCondition('VolumeReady', 'VolumeLost'))
    await it.stopOperator()
    const noted: Record<string, string> = identifier === 'ours' ? {} : { [systemIdentifierAnnotation]: identifier }
    const { volumeName: _volume, ...requested } = spec ?? {}
    const restored = await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: {
        namespace: testNamespace,
        name: metadata.name,
        labels: metadata.labels ?? {},
        annotations: { ...metadata.annotations, ...noted },
      },
      spec: requested,
    })
    if (data) it.workload().postgres.data.set(restored.metadata.uid ?? '', data)
    await it.startOperator()
    if (phase === 'available') {
      const after = await it.when(name, isPhase('available'))
      expect(after.status?.volume).toMatchObject({ uid: restored.metadata.uid, systemIdentifier })
      await it.when(name, hasCondition('VolumeReady', 'Bound'))
    } else {
      const still = await it.when(name, found => condition(found, 'VolumeReady')?.message.includes('another') === true)
      expect(still.status).toMatchObject({ phase: 'failed', volume: before.status?.volume })
      expect((await it.child('StatefulSet', name, 'statefulSet'))?.spec?.replicas).toBe(0)
    }
    expect(it.workload().postgres.initialised.get(restored.metadata.uid ?? '')).toBeUndefined()
  })

  test('with the data of another system makes the database failed and closes the endpoint', async () => {
    const database = await it.create('swapped', open)
    const uid = database.status?.volume?.uid ?? ''
    const data = it.workload().postgres.data.get(uid)
    if (data === undefined) throw new Error('no data')
    it.workload().postgres.data.set(uid, { ...data, systemIdentifier: '1' })
    const pod = { namespace: testNamespace, name: childNames.pod(await it.idOf('swapped'), 1) }
    await it.workload().restart(pod)
    const failed = await it.when('swapped', isPhase('failed'))
    expect(condition(failed, 'VolumeReady')?.reason).toBe('IdentityMismatch')
    await eventually(
      async () => it.routesOf(await it.idOf('swapped')),
      ([route]) => route?.rules.length === 0,
    )
    it.workload().postgres.data.set(uid, data)
    await it.workload().restart(pod)
    await it.when('swapped', isPhase('available'))
  })
})

describe('a pod that does not run', () => {
  const crash = async (name: string, exitCode: number, message: string) => {
    const pod = await it.child('Pod', name, 'pod')
    if (pod === undefined) throw new Error('no pod')
    const waiting = { reason: 'CrashLoopBackOff', message: 'back-off restarting failed container' }
    const status = {
      name: 'postgres',
      image: 'i',
      imageID: 'i',
      ready: false,
      restartCount: 3,
      state: { waiting },
      lastState: { terminated: { exitCode, message } },
    }
    await it.cluster().replaceStatus('Pod', { ...pod, status: { ...pod.status, containerStatuses: [status] } })
    return () => it.workload().restart({ namespace: testNamespace, name: pod.metadata.name })
  }

  test('makes the database degraded with the reason, until it runs', async () => {
    await it.create('crashing')
    const heal = await crash('crashing', 1, 'LOG:  starting\nFATAL:  could not map anonymous shared memory')
    const degraded = await it.when('crashing', isPhase('degraded'))
    expect(condition(degraded, 'Ready')).toMatchObject({
      reason: 'CrashLoopBackOff',
      message: expect.stringContaining('could not map anonymous shared memory'),
    })
    await heal()
    await it.when('crashing', isPhase('available'))
  })

  test('because the node has no space reports it', async () => {
    await it.create('full')
    const heal = await crash('full', 1, 'PANIC:  could not write to file "pg_wal/xlogtemp.1": No space left on device')
    const degraded = await it.when('full', hasCondition('VolumeReady', 'DiskFull'))
    expect(degraded.status?.phase).toBe('degraded')
    await heal()
    await it.when('full', isPhase('available'))
  })
})

describe('a change by a user', () => {
  test('a full volume is reported while Postgres answers, and cleared when there is space again', async () => {
    const database = await it.create('brimming')
    const data = it.workload().postgres.data.get(database.status?.volume?.uid ?? '')
    if (data === undefined) throw new Error('no data')
    data.isFull = true
    await it.workload().restart({ namespace: testNamespace, name: childNames.pod(await it.idOf('brimming'), 1) })
    const reported = await it.when('brimming', hasCondition('VolumeReady', 'DiskFull'))
    expect(condition(reported, 'Ready')?.status).toBe('True')
    await it.when('brimming', isPhase('degraded'))
    data.isFull = false
    await it.when('brimming', isPhase('available'))
  })

  test('a password changed in Postgres is reported and not overwritten', async () => {
    const database = await it.create('changed')
    const uid = database.status?.volume?.uid ?? ''
    it.workload().postgres.changePassword(uid, 'app', 'their own')
    await it.workload().restart({ namespace: testNamespace, name: childNames.pod(await it.idOf('changed'), 1) })
    const reported = await it.when('changed', hasCondition('CredentialsReady', 'PasswordChangedByUser'))
    expect(condition(reported, 'CredentialsReady')).toMatchObject({
      status: 'True',
      message: expect.stringMatching(/^app:/),
    })
    expect(reported.status?.phase).toBe('available')
    expect(it.workload().postgres.data.get(uid)?.roles.app?.password).toBe('their own')
  })

  test('a copied object gets an id and children of its own', async () => {
    await it.create('original', open)
    const id = await it.idOf('original')
    await it.cluster().create('ManagedDatabase', databaseDraft('copied', {}, id))
    const copy = await it.when('copied', isPhase('available'))
    expect(copy.metadata.labels?.[labels.id]).not.toBe(id)
    expect(await it.idOf('original')).toBe(id)
    const secret = await it.child('Secret', 'original', 'credentials')
    expect((await it.child('Secret', 'copied', 'credentials'))?.data).not.toEqual(secret?.data)
  })

  test("a foreign object with a child's name is not changed", async () => {
    const id = 'abcdef01-2345-4789-8abc-def012345678'
    const name = childNames.configuration(id, 1)
    const foreign = await it.cluster().create('ConfigMap', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: testNamespace },
      data: { theirs: 'yes' },
    })
    await it.cluster().create('ManagedDatabase', databaseDraft('blocked', {}, id))
    const reported = await it.when('blocked', hasCondition('Progressing', 'NameTaken'))
    expect(condition(reported, 'Progressing')?.message).toContain(name)
    expect(await it.cluster().get('ConfigMap', { namespace: testNamespace, name })).toEqual(foreign)
    await it.cluster().delete('ConfigMap', { namespace: testNamespace, name })
    await it.when('blocked', isPhase('available'))
  })
})

describe('keys of the installation', () => {
  test.each([
    [sealingKeySecret, 'SealingKeyMissing'],
    [authoritySecret, 'AuthorityMissing'],
  ])('without %s only the condition is written', async (name, reason) => {
    const database = `without${name === authoritySecret ? 'authority' : 'key'}`
    await it.create(database)
    const secret = await it.cluster().get('Secret', { namespace: systemNamespace, name })
    if (secret === undefined) throw new Error('no key')
    await it.cluster().delete('Secret', { namespace: systemNamespace, name })
    await it.when(database, hasCondition('KeysAvailable', reason))
    const service = await it.child('Service', database, 'service')
    await remove('Service', database, 'service')
    await editSpec(it.cluster(), database, spec => ({ ...spec, ...open }))
    await it.cluster().create('ManagedDatabase', databaseDraft(`${database}new`))
    const fresh = await it.when(`${database}new`, hasCondition('KeysAvailable', reason))
    expect(fresh.metadata.finalizers).toBeUndefined()
    expect(await it.child('Service', database, 'service')).toBeUndefined()
    const { uid: _, resourceVersion: __, ...metadata } = secret.metadata
    await it.cluster().create('Secret', { ...secret, metadata })
    await it.when(database, found => isPhase('available')(found) && hasCondition('KeysAvailable', 'Present')(found))
    expect((await it.child('Service', database, 'service'))?.metadata.uid).not.toBe(service?.metadata.uid)
    await it.when(`${database}new`, isPhase('available'))
  })
})
