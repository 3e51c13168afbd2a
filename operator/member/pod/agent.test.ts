import { describe, expect, test } from 'vitest'
import { smallShape } from '../../testing/samples.ts'
import { agentContainer } from './agent.ts'

const container = (qosClass: 'burstable' | 'guaranteed') =>
  agentContainer({ image: 'i', shape: { ...smallShape, qosClass }, data: '/data', tls: '/tls', archive: undefined })

describe('the container of the agent', () => {
  test('keeps the quality of service class of the pod', () => {
    const { requests, limits } = container('guaranteed').resources ?? {}
    expect(requests).toEqual(limits)
    expect(container('burstable').resources?.requests).toEqual({ cpu: '5m', memory: '48Mi' })
  })

  test('can write only to the log directory of the volume, and has no readiness probe', () => {
    const { volumeMounts, readinessProbe, startupProbe } = container('burstable')
    expect(volumeMounts?.filter(({ name }) => name === 'data')).toEqual([
      { name: 'data', mountPath: '/data', readOnly: true },
      { name: 'data', mountPath: '/var/lib/espalier/log', subPath: 'espalier-log' },
    ])
    expect([readinessProbe, startupProbe]).toEqual([undefined, undefined])
  })
})
