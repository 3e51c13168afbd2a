/** The embedded store behaves as a kube-apiserver with its controller manager does. */
import pino from 'pino'
import { smallest } from '../../cluster/conformance/drafts.ts'
import { describeConformance } from '../../cluster/conformance.ts'
import { definitionOf } from '../../crds/definition.ts'
import { declarations } from '../../crds/index.ts'
import { openStore } from './index.ts'

const historyCapacity = 512

describeConformance('embedded store', async () => {
  const store = await openStore({
    definitions: Object.values(declarations).map(definitionOf),
    logger: pino({ level: 'silent' }),
    bookmarkMs: 200,
    historyCapacity,
  })
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
})
