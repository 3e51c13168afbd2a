/** For tests: a size that is just large enough for Postgres, and a database with the defaults of its kind. */
import type { ManagedDatabaseSpec, SizeShape } from '../../crds/index.ts'

export const smallShape: SizeShape = {
  qosClass: 'burstable',
  cpuRequest: '100m',
  cpuLimit: '1',
  memoryRequest: '64Mi',
  memoryLimit: '256Mi',
  storageSize: '1Gi',
  temporaryDataSize: '100Mi',
  sharedMemorySize: '64Mi',
  connections: 20,
  postgresSettings: {},
}

export const plainSpec: ManagedDatabaseSpec = {
  region: 'here',
  size: { name: 'small', version: 1 },
  pgVersion: '18',
  instances: 1,
  ipAllowlist: { rules: [] },
  services: [],
  options: [],
  deletionProtection: false,
  backup: { durable: false },
  suspended: false,
  deletion: { keepBackups: false },
}
