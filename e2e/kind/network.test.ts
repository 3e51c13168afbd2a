import { expect, test } from 'vitest'
import { undoing } from './network.ts'

const rules = [
  '-P FORWARD DROP',
  '-N DOCKER',
  '-N DOCKER-USER',
  '-N MINE',
  '-A FORWARD -j DOCKER-USER',
  '-A FORWARD -j MINE',
  '-A POSTROUTING -s 172.17.0.0/24 ! -o docker0 -j MASQUERADE',
  '-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE',
  '-A DOCKER -i docker0 -j RETURN',
].join('\n')
const commands = (wasOnlyOne: boolean) => undoing(rules, ['172.17.0.0/24'], wasOnlyOne).map(words => words.join(' '))

test('only rules and chains of dockerd are removed: first rules, then chains', () => {
  expect(commands(true)).toEqual([
    '-D FORWARD -j DOCKER-USER',
    '-D POSTROUTING -s 172.17.0.0/24 ! -o docker0 -j MASQUERADE',
    '-F DOCKER',
    '-F DOCKER-USER',
    '-X DOCKER',
    '-X DOCKER-USER',
  ])
})

test('the network of another dockerd stays', () => {
  expect(commands(false)).toEqual(['-D POSTROUTING -s 172.17.0.0/24 ! -o docker0 -j MASQUERADE'])
})
