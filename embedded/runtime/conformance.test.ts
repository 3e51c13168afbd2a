/** The complete embedded cluster, store and runtime, treats claims and volumes like a Kubernetes cluster. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeConformance, storageGroups } from '../../cluster/testing/conformance.ts'
import { openStore } from '../store/index.ts'
import { startRuntime } from './index.ts'
import { nodeImage, testLogger } from './testing/runtime.ts'

describeConformance(
  'embedded cluster',
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'espalier-runtime-'))
    const store = await openStore({ definitions: [], logger: testLogger })
    const cluster = store.connect('runtime')
    const runtime = await startRuntime({ cluster, directory, images: nodeImage, logger: testLogger })
    return {
      connect: async fieldManager => store.connect(fieldManager),
      growingClass: 'growing',
      close: async () => {
        await runtime.stop()
        await store.close()
        rmSync(directory, { recursive: true, force: true })
      },
    }
  },
  storageGroups,
)
