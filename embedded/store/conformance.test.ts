/** The embedded store behaves like a kube-apiserver with its controller manager, in memory and on disk. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { smallest } from '../../cluster/testing/conformance/drafts.ts'
import { type ConformanceTarget, describeConformance, objectGroups } from '../../cluster/testing/conformance.ts'
import { openStore } from './index.ts'
import { definitions, silent } from './testing/store.ts'

const historyCapacity = 128

async function open(directory?: string): Promise<ConformanceTarget> {
  const store = await openStore({ directory, definitions, logger: silent, bookmarkMs: 200, historyCapacity })
  return {
    connect: async fieldManager => store.connect(fieldManager),
    close: () => store.close(),
    bookmarkWithin: 2000,
    expiredVersion: async () => {
      const cluster = store.connect('history')
      const draft = smallest.ManagedDatabase('default', 'history')
      const { metadata } = await cluster.create('ManagedDatabase', draft)
      for (let write = 0; write < historyCapacity * 2; write++) {
        await cluster.apply('ManagedDatabase', { ...draft, spec: { ...draft.spec, displayName: `write ${write}` } })
      }
      return metadata.resourceVersion ?? ''
    },
  }
}

describeConformance('embedded store in memory', () => open(), objectGroups)

describeConformance(
  'embedded store on disk',
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'espalier-store-'))
    const target = await open(directory)
    return {
      ...target,
      close: async () => {
        await target.close()
        rmSync(directory, { recursive: true })
      },
    }
  },
  objectGroups,
)
