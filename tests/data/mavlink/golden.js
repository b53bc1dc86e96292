// Frames of the messages in clients/mavlink/messages.h, made by node-mavlink, an implementation of its own:
//
//     npm install node-mavlink && node golden.js > golden.txt
//
// Each line: message, sequence, system, component, frame in hex, then name=value[,value...] for every field. A signed
// frame follows each unsigned one as "signed", with key, link and time (10 us since 2015).
const { MavLinkProtocolV2 } = require('node-mavlink')
const { minimal, common, standard } = require('mavlink-mappings')

const registry = { ...minimal.REGISTRY, ...(standard && standard.REGISTRY), ...common.REGISTRY }
// all of the bridge's but for ESC_STATUS, which these mappings do not have
const ids = [0, 1, 20, 22, 23, 31, 32, 36, 76, 77, 82, 84, 93, 105, 111, 115, 245, 253, 331, 375, 436, 83]
const key = Buffer.from([...Array(32).keys()].map((i) => (7 * i + 3) & 255))

// a small generator, so that the file is the same every time
let seed = 12345n
function draw(n) {
  seed = (seed * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn
  return Number((seed >> 33n) % BigInt(n))
}

const range = { int8_t: [-128, 127], uint8_t: [0, 255], int16_t: [-32768, 32767], uint16_t: [0, 65535],
                int32_t: [-2147483648, 2147483647], uint32_t: [0, 4294967295] }

// variant 0: anything; 1: small, with zeros at the end of the wire; 2: the extremes; 3: nothing but zeros
function value(type, variant, late) {
  const base = type.replace('[]', '').replace('uint8_t_mavlink_version', 'uint8_t')
  if (variant === 3 || (variant === 1 && late)) return base.endsWith('64_t') ? 0n : 0
  if (base === 'float') return variant === 2 ? (draw(2) ? 1 : -1) * 2 ** (draw(200) - 100) : (draw(20001) - 10000) / 8
  if (base === 'uint64_t') return variant === 2 ? 0xffffffffffffffffn : BigInt(draw(2 ** 30)) * BigInt(draw(2 ** 30))
  if (base === 'int64_t') return variant === 2 ? -(2n ** 63n) : BigInt(draw(2 ** 30)) * BigInt(draw(2 ** 20)) - 2n ** 40n
  const [min, max] = range[base]
  return variant === 2 ? (draw(2) ? min : max) : min + draw(max - min + 1)
}

function text(length, variant) {
  if (variant === 3) return ''
  const n = variant === 2 ? length : 1 + draw(length)
  return [...Array(n)].map(() => String.fromCharCode(65 + draw(26))).join('')
}

for (const id of ids)
  for (let variant = 0; variant < 4; variant++) {
    const type = registry[id], message = new type(), words = []
    type.FIELDS.forEach((field, i) => {
      const late = i >= type.FIELDS.length / 2
      let v
      if (field.type === 'char[]') v = text(field.length, variant)
      else if (field.type.endsWith('[]')) v = [...Array(field.length)].map((_, k) => value(field.type, variant, late || k > 1))
      else v = value(field.type, variant, late)
      message[field.name] = v
      words.push(`${field.source}=${Array.isArray(v) ? v.join(',') : v}`)
    })
    const sequence = draw(256), system = 1 + draw(255), component = 1 + draw(255)
    const protocol = new MavLinkProtocolV2(system, component)
    const head = `${type.MSG_NAME} ${sequence} ${system} ${component}`
    console.log(`${head} ${protocol.serialize(message, sequence).toString('hex')} ${words.join(' ')}`)

    const signer = new MavLinkProtocolV2(system, component, MavLinkProtocolV2.IFLAG_SIGNED)
    const link = draw(256), ms = 1_700_000_000_000 + draw(1_000_000_000)
    const frame = signer.sign(signer.serialize(message, sequence), link, key, ms)
    console.log(`signed ${key.toString('hex')} ${link} ${(ms - Date.UTC(2015, 0, 1)) * 100} ${frame.toString('hex')}`)
  }
