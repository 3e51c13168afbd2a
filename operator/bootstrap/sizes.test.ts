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

test('an existing size is kept, a new version is added, and a changed size is refused with its name and field', async () => {
  const changedOf = (...sizes: unknown[]) => changedShapes(it.cluster(), wantedSizes.parse(sizes))
  // In any order of fields.
  const { shape } = wanted(1)
  expect(await changedOf({ ...wanted(1), shape: Object.fromEntries(Object.entries(shape).reverse()) })).toEqual([])
  expect(await changedOf(wanted(2, { memoryLimit: '9Gi' }))).toEqual([])
  expect(await changedOf(wanted(1, { memoryLimit: '9Gi', connections: 7 }), wanted(2))).toEqual([
    'sizes: small version 1 exists with another shape (connections, memoryLimit), and a shape never changes: add the new shape as version 2, and set status: deprecated on this one',
  ])
})
