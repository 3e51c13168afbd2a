import { expect, test } from 'vitest'
import { labels } from '../../../crds/index.ts'
import { clientPath } from './target.ts'

const to = (incarnation: number, clusterIP?: string) => ({
  incarnation: 2,
  children: {
    service: {
      metadata: { name: 's' },
      spec: {
        selector: { [labels.incarnation]: String(incarnation) },
        ...(clusterIP === undefined ? {} : { clusterIP }),
      },
    },
  },
})

test.each([
  ['clients connect through the address of the Service', to(2, '10.96.0.7'), { by: 'service', address: '10.96.0.7' }],
  ['clients connect to the address of the pod if Services have no address', to(2), { by: 'direct' }],
  ['clients have no path while the Service routes to another incarnation', to(1, '10.96.0.7'), { by: 'elsewhere' }],
  ['clients have no path without a Service', { incarnation: 2, children: { service: undefined } }, { by: 'elsewhere' }],
])('%s', (_, observed, way) => {
  expect(clientPath(observed)).toEqual(way)
})
