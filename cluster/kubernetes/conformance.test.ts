/**
 * The adapter against a real kube-apiserver with crds/ and the VolumeSnapshot CRD installed, and
 * kube-controller-manager.
 */
import { pino } from 'pino'
import { test } from 'vitest'
import type { Cluster } from '../index.ts'
import { kindNames } from '../index.ts'
import { eventually } from '../testing/conformance/suite.ts'
import { describeConformance } from '../testing/conformance.ts'
import { connectKubernetes } from './index.ts'

const kubeconfig = process.env.ESPALIER_TEST_KUBECONFIG
/** A class whose volumes can grow. Without it, the tests of growth are skipped. */
const growingClass = process.env.ESPALIER_TEST_GROWING_CLASS

/** Waits until every kind is served: the server serves a new definition a moment after it is Established. */
async function everyKindServed(cluster: Cluster): Promise<void> {
  for (const kind of kindNames) await eventually(() => cluster.list(kind, { limit: 1 }))
}

if (kubeconfig === undefined) test.skip('kube-apiserver conformance: needs ESPALIER_TEST_KUBECONFIG')
else
  describeConformance('kube-apiserver', async () => {
    const clients: { close(): Promise<void> }[] = []
    return {
      connect: async fieldManager => {
        const client = await connectKubernetes({ fieldManager, kubeconfig, logger: pino({ level: 'silent' }) })
        clients.push(client)
        await everyKindServed(client)
        return client
      },
      close: async () => {
        for (const client of clients) await client.close()
      },
      // Its watch cache begins at the version at which the definition was installed.
      expiredVersion: async () => '1',
      bookmarkWithin: 90_000,
      ownConfigMap: 'kube-root-ca.crt',
      ...(growingClass && { growingClass }),
    }
  })
