/** The adapter against a real kube-apiserver with crds/ and the VolumeSnapshot CRD installed, kube-controller-manager beside it. */
// @ts-nocheck

import { pino } from 'pino'
import { test } from 'vitest'
import { describeConformance } from '../testing/conformance.ts'
import { connectKubernetes } from './index.ts'

const kubeconfig = process.env.ESPALIER_TEST_KUBECONFIG
/** A class that lets volumes grow; without it what is said of growth is skipped. */
const growingClass = process.env.ESPALIER_TEST_GROWING_CLASS

if (kubeconfig === undefined) test.skip('kube-apiserver conformance: needs ESPALIER_TEST_KUBECONFIG')
else
  describeConformance('kube-apiserver', async () => {
    const clients: { close(): Promise<void> }[] = []
    return {
      connect: async fieldManager => {
        const client = await connectKubernetes({ fieldManager, kubeconfig, logger: pino({ level: 'silent' }) })
        clients.push(client)
        return client
      },
      close: async () => {
        for (const client of clients) await client.close()
      },
      // Its watch cache begins at the version at which the definition was installed.
      expiredVersion: async () => '1',
      bookmarkWithin: 90_000,
      ...(growingClass && { growingClass }),
    }
  })
