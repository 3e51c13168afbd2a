/** Imports of new databases. The fake importer ends their pods. */
import { importSourceField } from '../../../crds/index.ts'
import { testNamespace } from '../installation.ts'
import { createDatabase, createTask, narrow, reconciledAs } from './requests.ts'
import type { Scenario } from './scenario.ts'

const secretName = 'old-server'
/** An address that is reserved for documentation: nothing is resolved, and nothing connects. */
const uri = 'postgresql://u:p@203.0.113.5/shop'

export const importScenarios: Scenario[] = [
  {
    name: 'create with an import',
    before: undefined,
    rules: ['198.51.100.0/24'],
    act: async (cluster, subject) => {
      await cluster.create('Secret', {
        apiVersion: 'v1',
        kind: 'Secret',
        type: 'Opaque',
        metadata: { name: secretName, namespace: testNamespace },
        data: { [importSourceField]: Buffer.from(uri).toString('base64') },
      })
      await createDatabase(cluster, subject, { ipAllowlist: narrow, import: { secretName } })
      await createTask(cluster, subject, 'create-managed')
    },
    isDone: reconciledAs('available'),
  },
]
