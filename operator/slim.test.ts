import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../cluster/index.ts'
import { createSharing } from './slim.ts'

const set = (name: string): StatefulSet => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name, namespace: 'n', uid: `uid of ${name}`, labels: { app: ['data', 'base'].join('') } },
  spec: {
    serviceName: name,
    selector: {},
    template: { spec: { containers: [{ name: 'postgres', image: 'postgres:18', args: ['-c', 'a=b'] }] } },
  },
})

describe('sharing', () => {
  test('keeps equal parts once, and changes no object', () => {
    const { share } = createSharing()
    const [one, two] = [share(set('one')), share(set('two'))]
    expect([one, two]).toEqual([set('one'), set('two')])
    expect(one.spec?.template.spec?.containers).toBe(two.spec?.template.spec?.containers)
    expect(one.spec).not.toBe(two.spec)
  })
  test('leaves alone what is frozen', () => {
    const { share } = createSharing()
    share(set('one'))
    const frozen = set('two')
    const containers = frozen.spec?.template.spec?.containers
    const object = { ...frozen, spec: Object.freeze(frozen.spec) }
    expect(share(object).spec?.template.spec?.containers).toBe(containers)
  })
  test('goes on where more has come than is kept in common', () => {
    const { share } = createSharing()
    for (let index = 0; index < 30_000; index++) {
      const object = set(`number ${index}`)
      const container = object.spec?.template.spec?.containers[0]
      if (container) container.image = `image ${index}`
      share(object)
    }
    expect(share(set('last'))).toEqual(set('last'))
  })
})
