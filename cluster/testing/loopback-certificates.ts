/**
 * For tests: self-signed certificates for two loopback addresses, valid from 2020 to 2120, each its own authority. Node
 * can create keys but no certificates. The keys protect nothing.
 */
import { createPrivateKey } from 'node:crypto'

export type LoopbackCertificate = { cert: string; key: string }

function loopbackCertificate(certificate: string, pkcs8: string): LoopbackCertificate {
  const lines = certificate.match(/.{1,64}/g) ?? []
  const key = createPrivateKey({ key: Buffer.from(pkcs8, 'base64'), format: 'der', type: 'pkcs8' })
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

/** For 127.0.0.1. */
export const loopback1 = loopbackCertificate(
  'MIIBXTCCAQKgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAx' +
    'MDEwMDAwMDBaMBQxEjAQBgNVBAMMCTEyNy4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAZjC6gyCE3mi5NRySMik/xm' +
    'y/b3N8goFeKDxHVZR8BnSAuomfi4+758ej9/bpGH0mEWVFN/crZShlYaudcDDzGjQzBBMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0R' +
    'BAgwBocEfwAAATAdBgNVHQ4EFgQUwm1IFbao2ieyuulpyFLwVu2c99owCgYIKoZIzj0EAwIDSQAwRgIhAIL74+t1aC6kfun7cQ1m' +
    'gWspZRvxl4qhLFLqHPdI0ZahAiEA3vNIphWtv5Jujt5P6sflBscL2G1HZXqE/7ff7JsJgyY=',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmdxLTeB6toZRlRMkC2I62D4chVS0OJt3zb+84/WWRKuhRANCAAQG' +
    'YwuoMghN5ouTUckjIpP8Zsv29zfIKBXig8R1WUfAZ0gLqJn4uPu+fHo/f26Rh9JhFlRTf3K2UoZWGrnXAw8x',
)

/** For 127.0.0.2. */
export const loopback2 = loopbackCertificate(
  'MIIBXTCCAQKgAwIBAgIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAkxMjcuMC4wLjIwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAx' +
    'MDEwMDAwMDBaMBQxEjAQBgNVBAMMCTEyNy4wLjAuMjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNJaLw6vMd0ExeYbaUedPjEC' +
    'NUn4frpf4V74o9MJifJUA/QKRvc3vT+2DGPzD6ailDnLua0x/erOhm8GzX0CoLmjQzBBMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0R' +
    'BAgwBocEfwAAAjAdBgNVHQ4EFgQUUFGe1gdv+ZNX8oyWg6+AQQA22OswCgYIKoZIzj0EAwIDSQAwRgIhAJi/C26vCBVUTsS/G0uW' +
    'MABOHWHNUpyFn46Sn2wum/y5AiEA61Xm6p/GrJwyGxo1zT30YCKF9K9THct1WH5Yra+Rjoo=',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgcViI6UQrG1FoiYk13she8Ngh7LCCtxfwfMZ7jH8MLeWhRANCAATS' +
    'Wi8OrzHdBMXmG2lHnT4xAjVJ+H66X+Fe+KPTCYnyVAP0Ckb3N70/tgxj8w+mopQ5y7mtMf3qzoZvBs19AqC5',
)
