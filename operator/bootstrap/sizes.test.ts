import { expect, test } from 'vitest'
import { useInstallation } from '../testing/fixture.ts'
import { sizeDraft } from '../testing/installation.ts'
import { changedShapes, wantedSizes } from './sizes.ts'

const it = useInstallation()
const wanted = (version: number, changes: object = {}) => ({
  name: 'small',
  version,
  shape: { ...sizeDraft('small').spec?.shape, ...changes },
})

test('an existing shape is kept, a new version is added, and a changed shape is refused with size and field', async () => {
  const look = (...sizes: unknown[]) => changedShapes(it.cluster(), wantedSizes.parse(sizes))
  // In whatever order its fields come.
  const { shape } = wanted(1)
  expect(await look({ ...wanted(1), shape: Object.fromEntries(Object.entries(shape).reverse()) })).toEqual([])
  expect(await look(wanted(2, { memoryLimit: '9Gi' }))).toEqual([])
  expect(await look(wanted(1, { memoryLimit: '9Gi', connections: 7 }), wanted(2))).toEqual([
    'sizes: small version 1 is there with another shape (connections, memoryLimit), and a shape never changes: give the new shape as version 2, and set status: deprecated on this one',
  ])
})
